//! What the helper process of a sandboxed daemon does for its mount. The daemon itself may neither mount nor unmount, nor see
//! what other processes have open.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf, absolute},
    process,
    sync::Arc,
};

use verimount_helper::{Answer, Task, ask, ask_for_file};
use verimount_sync::Mutex;

use crate::{
    Daemon, MountEntry, MountOptions, Registration, UnmountError,
    mount::{clear_dead_mount, mount_here, set_read_ahead},
    mount_table::mounted_on,
    native,
    native_name::Name,
    own_mount::{Left, OwnMount},
    unmount::detach_here,
    unseen::Unseen,
};

const MOUNT: &str = "mount";
const DETACH: &str = "detach the mount";
const LEAVE: &str = "leave";
const READ_AHEAD: &str = "read-ahead";
const UNSEEN: &str = "make a mount that nobody sees";
const NATIVE: &str = "mount natively";

/// The only mount that a helper process makes, and what it may allow at most.
#[derive(Debug)]
pub struct MountTasks {
    mount_point: PathBuf,
    most: MountOptions,
    /// The process that has this done, which serves the mount.
    process: u32,
    daemon: Option<Daemon>,
    made: Mutex<Made>,
}

/// What the helper has made.
#[derive(Debug, Default)]
struct Made {
    own: Option<OwnMount>,
    /// Of a mount that is ending. Removed with the helper, which ends with the daemon.
    record: Option<Registration>,
    /// What a native mount will be over.
    unseen: Option<Unseen>,
    /// Of a native mount. Removed with the helper.
    name: Option<Name>,
}

impl MountTasks {
    /// The mount on `mount_point` by this process, from which a dead mount is removed now, with options that allow no more than `most`.
    pub fn new(mount_point: &Path, most: MountOptions) -> Self {
        // What cannot be resolved cannot be mounted on either.
        let resolved = mount_point
            .canonicalize()
            .or_else(|_| absolute(mount_point));
        let mount_point = resolved.unwrap_or_else(|_| mount_point.to_owned());
        // Its place can be kept only without what hides it. If that fails, mounting fails and says why.
        let _ = clear_dead_mount(&mount_point);
        Self {
            mount_point,
            most,
            process: process::id(),
            daemon: Daemon::current(),
            made: Mutex::default(),
        }
    }

    /// The tasks for a helper.
    pub fn tasks(self) -> Vec<Task> {
        let tasks = Arc::new(self);
        let task = |name, run: fn(&Self, &[u8]) -> io::Result<Answer>| {
            let tasks = tasks.clone();
            Task::new(name, move |given| run(&tasks, given))
        };
        vec![
            task(MOUNT, Self::mount),
            task(DETACH, Self::detach),
            task(LEAVE, |tasks, _| tasks.leave()),
            task(READ_AHEAD, |tasks, _| tasks.set_read_ahead()),
            task(UNSEEN, |tasks, _| tasks.make_unseen()),
            task(NATIVE, Self::mount_native),
        ]
    }

    fn mount(&self, given: &[u8]) -> io::Result<Answer> {
        let options = self.allowed(given)?;
        let mut made = self.made.lock();
        made.check_none()?;
        let device = mount_here(&self.mount_point, &options)?;
        made.own = Some(OwnMount::new(self.mount_point.clone()));
        Ok(Answer::of_file(device))
    }

    fn make_unseen(&self) -> io::Result<Answer> {
        let mut made = self.made.lock();
        made.check_none()?;
        if !self.most.native {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (device, unseen) = Unseen::new()?;
        made.unseen = Some(unseen);
        Ok(Answer::of_file(device))
    }

    fn mount_native(&self, given: &[u8]) -> io::Result<Answer> {
        let options = self.allowed(given)?;
        let mut made = self.made.lock();
        made.check_none()?;
        let unseen = made.unseen.take().filter(|_| options.native);
        let unseen = unseen.ok_or(io::ErrorKind::PermissionDenied)?;
        let (socket, name) =
            native::mount_here(&unseen, &self.mount_point, &options, self.process)?;
        made.name = Some(name);
        made.own = Some(OwnMount::new(self.mount_point.clone()));
        Ok(Answer::of_file(socket.into()))
    }

    /// The options of a mount, if it may be made.
    fn allowed(&self, given: &[u8]) -> io::Result<MountOptions> {
        let options: MountOptions = serde_json::from_slice(given)?;
        if options.is_within(&self.most) {
            Ok(options)
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// Detaches the mount with this number, if it is one of Verimount's on the mount point.
    fn detach(&self, number: &[u8]) -> io::Result<Answer> {
        let entry = mounted_on(&self.mount_point).filter(MountEntry::is_ours);
        let meant = entry.filter(|entry| entry.id.to_ne_bytes() == number);
        let detached = meant
            .ok_or(UnmountError::NotMounted)
            .and_then(|entry| detach_here(&entry));
        detached.map_err(told)?;
        Ok(Answer::default())
    }

    /// Answers with who still uses the mount: with nothing if nobody does.
    fn leave(&self) -> io::Result<Answer> {
        let mut made = self.made.lock();
        let Some(own) = &made.own else {
            return Ok(Answer::default());
        };
        let Left { record, users } = own.leave_here(self.daemon).map_err(told)?;
        made.record = record.or(made.record.take());
        Ok(Answer::of_bytes(users.unwrap_or_default().into_bytes()))
    }

    fn set_read_ahead(&self) -> io::Result<Answer> {
        let is_set = self.made.lock().own.as_ref().is_some_and(set_read_ahead);
        Ok(Answer::of_bytes(vec![is_set.into()]))
    }
}

impl Made {
    /// It mounts once, however often it is asked.
    fn check_none(&self) -> io::Result<()> {
        if self.own.is_some() {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            Ok(())
        }
    }
}

/// Has the helper mount; `None` if this process has none.
pub(crate) fn mount(options: &MountOptions) -> Option<io::Result<OwnedFd>> {
    ask_with(MOUNT, options)
}

/// Has the helper make a mount that nobody sees, and returns its FUSE device; `None` if this process has no helper.
pub(crate) fn unseen() -> Option<io::Result<OwnedFd>> {
    ask_for_file(UNSEEN, &[])
}

/// Has the helper mount the kernel's file system over that, and returns the socket for questions; `None` if this process has no
/// helper.
pub(crate) fn mount_native(options: &MountOptions) -> Option<io::Result<OwnedFd>> {
    ask_with(NATIVE, options)
}

fn ask_with(task: &str, options: &MountOptions) -> Option<io::Result<OwnedFd>> {
    match serde_json::to_vec(options) {
        Ok(options) => ask_for_file(task, &options),
        Err(error) => Some(Err(error.into())),
    }
}

/// Has the helper detach this mount; `None` if this process has none.
pub(crate) fn detach(entry: &MountEntry) -> Option<Result<(), UnmountError>> {
    let answer = ask(DETACH, &entry.id.to_ne_bytes())?;
    Some(answer.map(drop).map_err(UnmountError::System))
}

/// Has the helper detach the mount that it has made, and returns who still uses it; `None` if this process has no helper.
pub(crate) fn leave() -> Option<Result<Option<String>, UnmountError>> {
    let answer = ask(LEAVE, &[])?.map_err(UnmountError::System);
    let users = answer.map(|answer| String::from_utf8_lossy(&answer.bytes).into_owned());
    Some(users.map(|users| Some(users).filter(|users| !users.is_empty())))
}

/// Has the helper set the mount's read-ahead, and returns whether that was done; `None` if this process has no helper.
pub(crate) fn read_ahead() -> Option<bool> {
    let answer = ask(READ_AHEAD, &[])?;
    Some(answer.is_ok_and(|answer| answer.bytes == [1]))
}

/// The error of an unmount as the helper tells it: only its text, unless it is the system's.
fn told(error: UnmountError) -> io::Error {
    match error {
        UnmountError::System(error) => error,
        other => io::Error::other(other),
    }
}
