//! Requests of one user that wait do not make another user's wait.

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
    memory_fs::SLOW,
    mounted::{Mounted, Wanted},
};

/// Users who are not the one who runs the tests.
pub(crate) const USERS: [u32; 3] = [61_001, 61_002, 61_003];

/// As many reads as one user may have under way, by `docs/SEMANTICS.md`.
pub(crate) const SHARE: usize = 32;

/// Does `work` as a user, in a thread of its own.
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
fn reads_that_wait() {
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
    // Another user has a share, too, and so has a third one, and the first one's other requests.
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
    // Root's are not counted.
    assert_eq!(read(&file), b"at once");

    mounted.fs.let_go();
    for reader in waiting {
        assert_eq!(reader.join().unwrap(), b"at last");
    }
    mounted.unmount();
}
