use std::io;

use crate::checked::checked;

/// Makes `uid` the user id with which this thread, and no other, creates and opens files. Returns
/// the previous id. Without permission it changes nothing, which only a second call reveals.
pub fn set_thread_fs_uid(uid: u32) -> u32 {
    // SAFETY: the call changes one number in this thread's credentials and touches no memory.
    // The system call, unlike glibc's functions for `setuid`, is not spread to other threads.
    let before = unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
    before as u32
}

/// As [`set_thread_fs_uid`], for the group id.
pub fn set_thread_fs_gid(gid: u32) -> u32 {
    // SAFETY: as in `set_thread_fs_uid`.
    let before = unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
    before as u32
}

/// Gives this thread a umask and a working directory of its own, which all threads of a process
/// otherwise share.
///
/// # Errors
/// `EPERM` where a sandbox denies it.
pub fn unshare_umask() -> io::Result<()> {
    // SAFETY: the thread gets a copy of the structure with umask, root and working directory. No
    // memory and no descriptor is affected.
    checked(unsafe { libc::unshare(libc::CLONE_FS) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// `u32::MAX` is nobody's id: the kernel changes nothing, and says what it is.
    const ASK: u32 = u32::MAX;

    #[test]
    fn only_this_thread_changes() {
        let before = set_thread_fs_uid(ASK);
        // SAFETY: it only says a number.
        let may = unsafe { libc::geteuid() } == 0;
        thread::spawn(move || {
            assert_eq!(set_thread_fs_gid(4321), set_thread_fs_gid(ASK).min(before));
            set_thread_fs_uid(1234);
            assert_eq!(set_thread_fs_uid(ASK) == 1234, may);
        })
        .join()
        .unwrap();
        assert_eq!(set_thread_fs_uid(ASK), before);
    }

    #[test]
    fn a_thread_can_have_its_own_umask() {
        // SAFETY: it only changes a number.
        let umask = |mask| unsafe { libc::umask(mask) };
        thread::spawn(move || {
            if unshare_umask().is_ok() {
                umask(0o123);
            }
        })
        .join()
        .unwrap();
        let before = umask(0o22);
        umask(before);
        assert_ne!(before, 0o123);
    }
}
