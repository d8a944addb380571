//! Waiting requests of one user do not block another user's.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread,
};

use rustix::fs::OFlags;
use verimount_sys::set_thread_fs_uid;

use crate::{
    memory_fs::{SLOW, SLOW_STORAGE},
    mounted::{Mounted, Wanted},
};

/// Users other than the one who runs the tests.
pub(crate) const USERS: [u32; 3] = [61_001, 61_002, 61_003];

/// How many reads a single user can have running, according to `docs/semantics/bridge-users.md`.
pub(crate) const SHARE: usize = 32;

/// How many `fsync`s and other operations that may take long a single user can have running.
pub(crate) const LONG_SHARE: usize = 16;

/// Does `work` as a user, on a new thread.
fn as_user<T: Send + 'static>(
    uid: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::spawn(move || {
        set_thread_fs_uid(uid);
        work()
    })
}

/// Reads a file so that each read is a request.
fn read(path: &Path) -> Vec<u8> {
    let mut options = File::options();
    let direct = OFlags::DIRECT.bits() as i32;
    let mut file = options.read(true).custom_flags(direct).open(path).unwrap();
    let mut content = vec![0; 100];
    let len = file.read(&mut content).unwrap();
    content.truncate(len);
    content
}

#[test]
fn waiting_reads_of_one_user_do_not_block_others() {
    let Some(mounted) = Mounted::new(Wanted::Fair) else {
        return;
    };
    let slow = mounted.path(SLOW);
    fs::write(&slow, "at last").unwrap();
    let file = mounted.path("file");
    fs::write(&file, "at once").unwrap();
    let read_slowly = |uid, count| {
        let readers = (0..count).map(|_| {
            let slow = slow.clone();
            as_user(uid, move || read(&slow))
        });
        readers.collect::<Vec<_>>()
    };

    let [first, second, third] = USERS;
    let mut waiting = read_slowly(first, 3 * SHARE);
    mounted.fs.await_slow(SHARE);
    // Other users have shares of their own, and the first user's requests of other kinds still run.
    waiting.extend(read_slowly(second, SHARE));
    mounted.fs.await_slow(SHARE + 1);
    for uid in [first, third] {
        let path = file.clone();
        let len = as_user(uid, move || fs::metadata(path).unwrap().len());
        assert_eq!(len.join().unwrap(), 7);
    }
    let path = file.clone();
    let content = as_user(third, move || read(&path));
    assert_eq!(content.join().unwrap(), b"at once");
    // Root is not limited.
    assert_eq!(read(&file), b"at once");

    mounted.fs.let_go();
    for reader in waiting {
        assert_eq!(reader.join().unwrap(), b"at last");
    }
    mounted.unmount();
}

#[test]
fn waiting_syncs_of_one_user_do_not_block_others() {
    let Some(mounted) = Mounted::new(Wanted::Fair) else {
        return;
    };
    let file = mounted.path("file");
    fs::write(&file, "at once").unwrap();
    // The kernel sends one such request at a time for each file.
    let [first, second, _] = USERS;
    let sync = |uid, number: usize| {
        let file = File::create(mounted.path(&format!("{SLOW_STORAGE} {number}"))).unwrap();
        as_user(uid, move || file.sync_all())
    };
    let mut waiting: Vec<_> = (0..3 * LONG_SHARE).map(|n| sync(first, n)).collect();
    mounted.fs.await_slow(LONG_SHARE);
    waiting.push(sync(second, 3 * LONG_SHARE));
    mounted.fs.await_slow(LONG_SHARE + 1);
    // Not even the same user's reads wait.
    let content = as_user(first, move || read(&file));
    assert_eq!(content.join().unwrap(), b"at once");
    let begun = mounted.fs.slow_count();

    mounted.fs.let_go();
    for sync in waiting {
        sync.join().unwrap().unwrap();
    }
    // Not before: this process could not end while its threads wait for it.
    assert_eq!(begun, LONG_SHARE + 1);
    mounted.unmount();
}
