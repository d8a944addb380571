//! Files with several names, made in the source: what one of them denies is denied.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use rustix::{
    fs::{OFlags, RenameFlags},
    io::Errno,
};
use verimount_bridge::Caller;

use super::{DENIED, LISTED, SECRETS, bench};
use crate::support::CALLER;

/// A rule that denies only to [`CALLER`].
const CALLERS: &str = "[[rule]]\naction = \"deny\"\npath = \"secrets/**\"\ncaller_uid = 1000";

/// How often a file is moved while somebody tries to open it.
const MOVES: usize = 2000;

/// Whichever of its names was looked up last.
#[test]
fn a_file_is_denied_if_one_of_its_names_is() {
    for policy in [SECRETS, LISTED] {
        for order in [["pub/link", "secrets/file"], ["secrets/file", "pub/link"]] {
            let bench = bench(policy);
            let source = bench.folder.path();
            fs::hard_link(source.join("secrets/file"), source.join("pub/link")).unwrap();
            let [node, same] = order.map(|name| bench.used(name));
            assert_eq!(node, same);
            assert_eq!(bench.open(node, OFlags::RDONLY), DENIED, "{order:?}");
            assert_eq!(bench.open(node, OFlags::RDWR), DENIED, "{order:?}");
            assert_eq!(bench.truncate(node), DENIED, "{order:?}");
            let (public, _) = bench.place("pub/link");
            assert_eq!(bench.link(node, (public, "other")), DENIED, "{order:?}");
            // The denied name is moved to where it is allowed, back, and removed.
            bench.shift("secrets/file", "pub/moved");
            assert_eq!(bench.open(node, OFlags::RDWR), Ok(()), "{order:?}");
            bench.shift("pub/moved", "secrets/file");
            bench.find("secrets/file");
            assert_eq!(bench.open(node, OFlags::RDWR), DENIED, "{order:?}");
            fs::remove_file(source.join("secrets/file")).unwrap();
            assert_eq!(bench.open(node, OFlags::RDWR), Ok(()), "{order:?}");
        }
    }
}

/// The name that allows it is gone; the other one denies it, but was not looked up.
#[test]
fn a_file_is_not_opened_by_a_name_that_it_has_lost() {
    for policy in [SECRETS, LISTED] {
        let bench = bench(policy);
        let source = bench.folder.path();
        fs::hard_link(source.join("secrets/file"), source.join("pub/link")).unwrap();
        let node = bench.used("pub/link");
        assert_eq!(bench.open(node, OFlags::RDONLY), Ok(()));
        fs::remove_file(source.join("pub/link")).unwrap();
        for _ in 0..2 {
            let opened = bench.open(node, OFlags::RDONLY);
            assert!(
                matches!(opened, Err(Errno::ACCESS | Errno::STALE)),
                "{opened:?}"
            );
            fs::write(source.join("pub/link"), "another").unwrap();
        }
    }
}

/// A name that was looked up is still known after it is moved through the mirror.
#[test]
fn a_denied_name_stays_known_when_it_is_moved() {
    let bench = bench(CALLERS);
    let source = bench.folder.path();
    fs::hard_link(source.join("secrets/file"), source.join("pub/link")).unwrap();
    let (node, secrets) = (bench.used("secrets/file"), bench.find("secrets"));
    bench.find("pub/link");
    let root = Caller { uid: 0, ..CALLER };
    let [old, new] = ["file", "new"].map(|name| (secrets, name.as_ref()));
    let renamed = bench.bridge.rename(root, old, new, RenameFlags::empty());
    assert_eq!(renamed, Ok(()));
    assert_eq!(bench.open(node, OFlags::RDONLY), DENIED);
}

/// Also at the moment when it is moved.
#[test]
fn a_denied_name_is_never_overlooked_while_it_is_moved() {
    let bench = bench(CALLERS);
    let source = bench.folder.path();
    fs::hard_link(source.join("secrets/file"), source.join("pub/link")).unwrap();
    let (node, secrets) = (bench.used("secrets/file"), bench.find("secrets"));
    bench.find("pub/link");
    let root = Caller { uid: 0, ..CALLER };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (bench, is_done) = (&bench, &is_done);
        scope.spawn(move || {
            for round in 0..MOVES {
                let names = match round % 2 {
                    0 => ["file", "new"],
                    _ => ["new", "file"],
                };
                let [old, new] = names.map(|name| (secrets, name.as_ref()));
                let renamed = bench.bridge.rename(root, old, new, RenameFlags::empty());
                assert_eq!(renamed, Ok(()));
            }
            is_done.store(true, Relaxed);
        });
        while !is_done.load(Relaxed) {
            assert_ne!(bench.open(node, OFlags::RDONLY), Ok(()));
        }
    });
}
