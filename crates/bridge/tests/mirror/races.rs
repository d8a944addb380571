//! Other processes change the source while it is used: nothing outside is ever reached.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use rustix::{
    fs::{CWD, OFlags, RenameFlags, renameat_with},
    io::{Errno, pread, pwrite},
};
use verimount_bridge::{Mirror, NodeId};

use crate::support::{Bench, as_ordinary_user, new_file};

/// The fewest rounds.
const ROUNDS: usize = 3000;

/// The rounds in which both names must have been of either kind once. A thread that swaps names and waits for a
/// processor leaves them as they are for many rounds.
const MOST_ROUNDS: usize = 100 * ROUNDS;

/// Swaps two names for as long as `work` takes.
fn while_swapping<T>(one: &Path, other: &Path, work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(SeqCst) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let result = work();
        is_done.store(true, SeqCst);
        result
    })
}

/// A directory `d` that alternates with a symbolic link to one outside, and a file `f` with one to a file
/// there.
fn bench() -> Bench {
    let bench = Bench::new();
    let (source, outside) = (bench.source(), bench.outside());
    fs::create_dir(source.join("d")).unwrap();
    fs::write(source.join("d/file"), "public").unwrap();
    fs::write(source.join("f"), "public").unwrap();
    fs::write(outside.join("file"), "secret").unwrap();
    symlink(&outside, source.join("to_d")).unwrap();
    symlink(outside.join("file"), source.join("to_f")).unwrap();
    bench
}

fn read(mirror: &Mirror, node: NodeId) -> Result<[u8; 6], Errno> {
    let file = mirror.open_file(node, OFlags::RDWR)?;
    let mut content = [0; 6];
    pread(file.fd()?, &mut content, 0)?;
    pwrite(file.fd()?, b"public", 0)?;
    Ok(content)
}

/// The operations on `d` and `f`, each as far as it succeeds.
fn use_both(mirror: &Mirror, round: usize) -> Result<(), Errno> {
    let name = format!("{round}");
    if let Ok(file) = mirror.lookup(NodeId::ROOT, "f".as_ref())
        && let Ok(content) = read(mirror, file.node)
    {
        assert_eq!(&content, b"public");
    }
    let directory = mirror.lookup(NodeId::ROOT, "d".as_ref())?.node;
    let _ = mirror.mkdir(directory, name.as_ref(), new_file(0o700));
    let file = mirror.lookup(directory, "file".as_ref())?.node;
    assert_eq!(&read(mirror, file)?, b"public");
    mirror.forget(directory, 1);
    Ok(())
}

fn stay_inside() {
    let bench = bench();
    let source = bench.source();
    let [d, to_d, f, to_f] = ["d", "to_d", "f", "to_f"].map(|name| source.join(name));
    let both_kinds = while_swapping(&d, &to_d, || {
        while_swapping(&f, &to_f, || {
            let mut completed = 0;
            for round in 0..MOST_ROUNDS {
                if round >= ROUNDS && (1..round).contains(&completed) {
                    return true;
                }
                completed += usize::from(use_both(&bench.mirror, round).is_ok());
            }
            false
        })
    });
    assert!(both_kinds, "the names were always of the same kind");
    assert_eq!(fs::read_dir(bench.outside()).unwrap().count(), 1);
    assert_eq!(fs::read(bench.outside().join("file")).unwrap(), b"secret");
}

#[test]
fn names_that_turn_into_links_lead_nowhere() {
    stay_inside();
    as_ordinary_user(stay_inside);
}
