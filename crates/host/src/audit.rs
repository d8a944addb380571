//! Where a bridge's audit log goes.

use std::{
    fmt, fs, io,
    os::{fd::OwnedFd, unix::fs::FileTypeExt},
    path::{Path, PathBuf, absolute},
};

use rustix::{
    fs::{Mode, OFlags},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
};
use verimount_audit::Target;
use verimount_helper::{Answer, Task, ask_for_file};
use verimount_sys::GuardedPath;

pub use verimount_audit::{AuditLog, AuditOptions, AuditStatus, Full, RuleCounts};

/// The name of the task.
const REOPEN: &str = "reopen-audit";

/// A file or a stream socket, before anything is written to it.
pub struct AuditTarget {
    /// Absolute, as the process leaves its directory.
    path: PathBuf,
    target: Target,
}

impl AuditTarget {
    /// Opens the file at `path`, which is created if it is missing, or connects to the socket that is there.
    ///
    /// # Errors
    /// `InvalidInput` for anything else; those of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = absolute(path)?;
        let target = Target::new(open(&path)?, &path)?;
        Ok(Self { path, target })
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.target.is_file()
    }

    /// The task of opening it again, when it was moved or has gone.
    pub fn reopening(&self) -> Task {
        let path = self.path.clone();
        Task::new(REOPEN, move |_| Ok(Answer::of_file(open(&path)?)))
    }

    /// The log, whose threads start now.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(self, options: AuditOptions) -> io::Result<AuditLog> {
        let Self { path, target } = self;
        let again = move || {
            let opened = match ask_for_file(REOPEN, &[]) {
                Some(file) => file?,
                None => open(&path)?,
            };
            Target::new(opened, &path)
        };
        AuditLog::start(target, Box::new(again), options)
    }
}

impl fmt::Debug for AuditTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditTarget").field(&self.path).finish()
    }
}

/// Opens it without waiting for anybody. Only this user may read a file that is created.
fn open(path: &Path) -> io::Result<OwnedFd> {
    let guarded = GuardedPath::new(path)?;
    let found = fs::symlink_metadata(guarded.path());
    if !found.is_ok_and(|found| found.file_type().is_socket()) {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let file = guarded.open(flags, Mode::from_raw_mode(0o600))?;
        return Ok(file.into());
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(guarded.path())?)?;
    Ok(socket)
}
