//! Which process has a volume for itself.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf, absolute},
};

use rustix::fs::{major, minor};
use verimount_host::{
    mounts::{ending_mounts, shown_process},
    sandbox::{Answer, Task, ask},
};

use crate::list::ask_everything;

/// The name of the task.
const HOLDER: &str = "holder";

/// The process that has a file locked, and where it serves it, such as `process 7 (verimount), on /mnt/disk`;
/// `None` if it cannot be seen from here.
pub(super) fn holder(path: &Path) -> Option<String> {
    let absolute = absolute(path).ok()?;
    let Some(answer) = ask(HOLDER, absolute.as_os_str().as_bytes()) else {
        return holder_here(path);
    };
    String::from_utf8(answer.ok()?.bytes).ok()
}

/// The task of finding the process that has any of these files.
pub(super) fn finding_holder(files: Vec<PathBuf>) -> Task {
    let files: Vec<_> = files
        .into_iter()
        .map_while(|file| absolute(file).ok())
        .collect();
    Task::new(HOLDER, move |given| {
        let asked = Path::new(OsStr::from_bytes(given));
        let file = files.iter().find(|file| *file == asked);
        let found = file.and_then(|file| holder_here(file));
        Ok(Answer::of_bytes(
            found.ok_or(io::ErrorKind::NotFound)?.into_bytes(),
        ))
    })
}

fn holder_here(path: &Path) -> Option<String> {
    let file = fs::metadata(path).ok()?;
    let (device, inode) = (file.dev(), file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locker(&locks, (major(device), minor(device)), inode)?;
    let process = format!("process {}", shown_process(pid));
    Some(match place(pid) {
        Some(place) => format!("{process}, on {place}"),
        None => process,
    })
}

/// The process that has locked an inode by `flock`. Some file systems, such as btrfs, have several device numbers, of
/// which the kernel shows another one here: the number of the inode is then enough.
fn locker(locks: &str, device: (u32, u32), inode: u64) -> Option<i32> {
    let of_inode: Vec<_> = locks
        .lines()
        .filter_map(|line| flock(line, inode))
        .collect();
    let exact = of_inode.iter().find(|(found, _)| *found == device);
    exact.or(of_inode.first()).map(|(_, pid)| *pid)
}

/// The device and process of a line like `1: FLOCK  ADVISORY  WRITE 4711 fe:00:393226 0 EOF`, if it is about this
/// inode.
fn flock(line: &str, inode: u64) -> Option<((u32, u32), i32)> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK");
    let (pid, file) = (words.nth(3)?, words.next()?);
    let mut numbers = file.split(':');
    let mut device = || u32::from_str_radix(numbers.next()?, 16).ok();
    let device = (device()?, device()?);
    let is_it = numbers.next()?.parse() == Ok(inode);
    Some((device, pid.parse().ok()?)).filter(|_| is_it)
}

/// The mount point or socket at which a process serves, or which it is leaving.
fn place(pid: i32) -> Option<String> {
    let mut ending = ending_mounts().into_iter();
    if let Some(mount) = ending.find(|mount| mount.daemon.pid() == pid) {
        return Some(format!(
            "{}, which is {}",
            mount.mount_point,
            mount.in_use()
        ));
    }
    let mut all = ask_everything().ok()?.into_iter();
    let served = all.find(|asked| {
        let status = asked.answer.as_ref();
        status.is_ok_and(|status| {
            status
                .served
                .daemon
                .is_some_and(|daemon| daemon.pid() == pid)
        })
    });
    served.map(|asked| asked.target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_tells_its_process() {
        let locks = "1: POSIX  ADVISORY  READ 5 00:19:7 1073741826 1073742335\n\
                     2: FLOCK  ADVISORY  WRITE 4711 fe:01:7 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 99 fe:01:8 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 4712 fe:00:7 0 EOF\n";
        assert_eq!(locker(locks, (0xfe, 1), 7), Some(4711));
        assert_eq!(locker(locks, (0xfe, 0), 7), Some(4712));
        // Another number of the same file system.
        assert_eq!(locker(locks, (0, 0x2a), 7), Some(4711));
        assert_eq!(locker(locks, (0xfe, 1), 9), None);
        assert_eq!(locker("nonsense\n1: FLOCK\n", (0, 0), 0), None);
    }
}
