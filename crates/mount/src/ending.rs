//! Mounts that are detached, and end when their last open file is closed. No mount table shows them any longer, so
//! their processes keep a record of each beside the registry of exports.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use verimount_helper::remove_file;
use verimount_names::{one_line, printable};
use verimount_sys::GuardedPath;

use crate::{Daemon, MountEntry, Registration, exports};

/// How the name of a record ends, after the id of the process.
const EXTENSION: &str = "ending";

/// The longest record that is read: two paths all of whose bytes are escaped, and little more.
const MAX_RECORD: u64 = 64 << 10;

/// The most processes that are named.
const MAX_NAMED: usize = 8;

/// A mount that is detached and still in use.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndingMount {
    /// Where it was mounted, as [`printable`] shows it.
    pub mount_point: String,
    /// The source, as the mount table showed it.
    pub source: String,
    /// The process that serves it to the end.
    pub daemon: Daemon,
    /// By which the kernel tells open files in it.
    mount_id: u64,
    /// The names of loop devices that have a file in it, which no process has open for them.
    loops: Vec<String>,
}

impl EndingMount {
    /// The mount that a process serves, which is about to be detached.
    pub(crate) fn of(mount: &MountEntry, daemon: Daemon) -> Self {
        Self {
            mount_point: printable(&mount.mount_point).to_string(),
            source: mount.source.clone(),
            daemon,
            mount_id: mount.id,
            loops: loops_below(&mount.mount_point),
        }
    }

    /// Registers it, if that can be done: without a record it ends as well.
    pub(crate) fn registered(&self) -> Option<Registration> {
        let name = format!("{}.{EXTENSION}", self.daemon.pid());
        let made = Registration::made(name, |path| {
            File::create_new(path)?.write_all(&serde_json::to_vec(self)?)
        });
        made.unwrap_or_else(|error| {
            tracing::warn!(%error, "verimount list will not show the mount while it ends");
            None
        })
    }

    /// Who uses it, such as `7 (bash)` and `loop0`, as far as this process may see it.
    pub fn users(&self) -> Vec<String> {
        let devices = self
            .loops
            .iter()
            .filter(|name| backing_file(name).is_some());
        let devices = devices.map(|name| one_line(name).to_string());
        devices.chain(processes_in(self.mount_id)).collect()
    }

    /// Who uses it, as the end of a sentence.
    pub fn in_use(&self) -> String {
        let users = self.users();
        if users.is_empty() {
            "in use by processes that cannot be seen from here".to_owned()
        } else {
            format!("in use by {}", users.join(", "))
        }
    }
}

/// The mounts of this user's processes that are ending. Removes the records of processes that no longer run.
pub fn ending_mounts() -> Vec<EndingMount> {
    let Some(directory) = exports::own_directory() else {
        return Vec::new();
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let records = entries
        .take(exports::MAX_LINKS)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == EXTENSION));
    records
        .filter_map(|path| {
            let mount = read(&path)?;
            if mount.daemon.end().is_none() {
                let _ = remove_file(&path);
                return None;
            }
            Some(mount)
        })
        .collect()
}

fn read(path: &Path) -> Option<EndingMount> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = GuardedPath::new(path).ok()?;
    let file = file.open(flags, Mode::empty()).ok()?;
    let mut record = Vec::new();
    file.take(MAX_RECORD).read_to_end(&mut record).ok()?;
    serde_json::from_slice(&record).ok()
}

/// The loop devices whose file is below a directory.
fn loops_below(directory: &Path) -> Vec<String> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices
        .filter_map(|device| device.file_name().into_string().ok())
        .filter(|name| backing_file(name).is_some_and(|file| file.starts_with(directory)))
        .collect()
}

/// The file of a loop device, if it has one.
fn backing_file(device: &str) -> Option<PathBuf> {
    let file = Path::new("/sys/block")
        .join(device)
        .join("loop/backing_file");
    Some(fs::read_to_string(file).ok()?.trim_end_matches('\n').into())
}

/// The processes that have a file of a mount open, with their commands.
fn processes_in(mount_id: u64) -> impl Iterator<Item = String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.filter(move |&pid: &i32| has_open(pid, mount_id))
        .map(shown_process)
        .take(MAX_NAMED)
}

fn has_open(pid: i32, mount_id: u64) -> bool {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo"));
    let mut infos = infos.into_iter().flatten().flatten();
    infos.any(|info| {
        fs::read_to_string(info.path()).is_ok_and(|info| mount_of(&info) == Some(mount_id))
    })
}

/// The number of the mount in the `fdinfo` of an open file.
pub(crate) fn mount_of(info: &str) -> Option<u64> {
    let number = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    number?.trim().parse().ok()
}

/// A process for messages: its id and its command.
pub fn shown_process(pid: i32) -> String {
    let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", one_line(command.trim_end()))
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsRawFd, process};

    use super::*;

    #[test]
    fn users_are_found_by_their_open_files() {
        let info = "pos:\t0\nflags:\t02100000\nmnt_id:\t4711\nino:\t2\n";
        assert_eq!(mount_of(info), Some(4711));
        let own = process::id().cast_signed();
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        // Of this file alone: other tests of this process close theirs meanwhile.
        let info = format!("/proc/self/fdinfo/{}", opened.as_raw_fd());
        let mount = mount_of(&fs::read_to_string(info).unwrap()).unwrap();
        assert!(has_open(own, mount));
        assert!(!has_open(own, u64::MAX));
        assert!(shown_process(own).starts_with(&format!("{own} (")));
    }
}
