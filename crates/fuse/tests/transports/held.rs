//! Requests that the file system holds take no thread.

use std::{fs, io, mem, process::Command, sync::atomic::Ordering::SeqCst, thread};

use rustix::io::Errno;
use verimount_fuse::{Held, NodeId};
use verimount_testkit::eventually;

use crate::{
    memory_fs::HELD_OPEN,
    mounted::{Mounted, Wanted},
};

/// More than there can be threads.
const OPENERS: usize = 400;

/// How many threads answer requests.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
    // A thread may have ended meanwhile.
    names
        .filter(|name| name.as_ref().is_ok_and(|name| name == "fuse\n"))
        .count()
}

#[test]
fn held_requests_take_no_thread() {
    let Some(mounted) = Mounted::new(Wanted::Fair) else {
        return;
    };
    let fs = &mounted.fs;
    for name in [HELD_OPEN, "other"] {
        fs.make(NodeId::ROOT, name, rustix::fs::FileType::RegularFile);
    }
    let held_path = &mounted.path(HELD_OPEN);
    thread::scope(|scope| {
        let openers: Vec<_> = (0..OPENERS)
            .map(|_| scope.spawn(move || fs::File::open(held_path).map(drop)))
            .collect();
        eventually("all are held", || fs.held.lock().unwrap().len() == OPENERS);
        assert!(threads() < OPENERS / 2, "{} threads", threads());
        fs::File::open(mounted.path("other")).unwrap();
        let held = mem::take(&mut *fs.held.lock().unwrap());
        for (number, held) in held.into_iter().enumerate() {
            if number % 2 == 0 {
                fs.may_go_on.lock().unwrap().insert(held.request());
                held.again();
            } else {
                held.fail(Errno::IO);
            }
        }
        let ends: Vec<io::Result<()>> =
            openers.into_iter().map(|one| one.join().unwrap()).collect();
        let failed: Vec<_> = ends.iter().filter_map(|end| end.as_ref().err()).collect();
        assert_eq!(failed.len(), OPENERS / 2);
        assert!(
            failed
                .iter()
                .all(|error| Errno::from_io_error(error) == Some(Errno::IO))
        );
        eventually("it was told", || fs.let_go.load(SeqCst) == OPENERS / 2);
    });
    mounted.unmount();
}

#[test]
fn a_killed_caller_is_held_no_longer() {
    let Some(mounted) = Mounted::new(Wanted::Fair) else {
        return;
    };
    let fs = &mounted.fs;
    fs.make(NodeId::ROOT, HELD_OPEN, rustix::fs::FileType::RegularFile);
    let mut cat = Command::new("cat")
        .arg(mounted.path(HELD_OPEN))
        .spawn()
        .unwrap();
    eventually("it is held", || fs.held.lock().unwrap().len() == 1);
    cat.kill().unwrap();
    eventually("it is gone", || cat.try_wait().unwrap().is_some());
    eventually("it was told", || fs.let_go.load(SeqCst) == 1);
    // That nobody waits for it any more does no harm.
    mem::take(&mut *fs.held.lock().unwrap())
        .into_iter()
        .for_each(Held::again);
    mounted.unmount();
}
