use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, FileType, statat};
use verimount_host::{
    mounts::{
        AskError, EndingMount, Export, MountEntry, NoAnswer, Status, ask_export, ask_mount,
        ending_mounts, in_time, our_mount_on,
    },
    printable,
};

/// How long a mount or export may take to answer, which it does without accessing storage.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A mount or export, which has a status and can be ended.
pub(crate) enum Target {
    /// The mount on this directory.
    Mount(PathBuf),
    /// The export at this socket.
    Export(PathBuf),
}

impl Target {
    /// A mount point or a socket, by the type of the file. Unlike `fs::metadata`, this has no automounter mount. A mount is
    /// known without asking it, as it may not answer.
    pub(crate) fn at(path: &Path) -> Self {
        let is_mount = || our_mount_on(path).is_ok_and(|mount| mount.is_some());
        let is_socket = || {
            let found = statat(CWD, path, AtFlags::NO_AUTOMOUNT);
            found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
        };
        if !is_mount() && is_socket() {
            Self::Export(path.to_owned())
        } else {
            Self::Mount(path.to_owned())
        }
    }

    /// Its status.
    pub(crate) fn status(&self) -> Result<Status> {
        match self {
            Self::Mount(directory) => match ask_in_time(directory)? {
                Err(AskError::Mount(NoAnswer::NotOurs)) => match ending(directory) {
                    Some(ending) => bail!("{}", ending_text(&ending)),
                    None => bail!("{} is not a verimount mount", printable(directory)),
                },
                other => other.with_context(|| printable(directory).to_string()),
            },
            Self::Export(socket) => Ok(ask(socket)?.status),
        }
    }
}

/// What the mount on a directory tells.
///
/// # Errors
/// It does not answer in time, in words.
pub(crate) fn ask_in_time(directory: &Path) -> Result<Result<Status, AskError>> {
    let mount = match our_mount_on(directory) {
        Ok(Some(mount)) => mount,
        Ok(None) => return Ok(Err(NoAnswer::NotOurs.into())),
        Err(error) => return Ok(Err(NoAnswer::System(error).into())),
    };
    let call = |mount: MountEntry| ask_mount(&mount);
    let mut told = in_time([mount.clone()], Instant::now() + PATIENCE, call).into_iter();
    told.next().flatten().with_context(|| {
        let (seconds, directory) = (PATIENCE.as_secs(), printable(directory));
        let process = mount.process().map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
        format!(
            "{directory}: the mount has not answered within {seconds} seconds: let its process go on if it is stopped \
             (kill -CONT {process}), or end it with verimount umount --force {directory}"
        )
    })
}

/// The mount that was on a directory, if it is ending.
pub(crate) fn ending(directory: &Path) -> Option<EndingMount> {
    let mount_point = printable(&directory.canonicalize().ok()?).to_string();
    let mut ending = ending_mounts().into_iter();
    ending.find(|ending| ending.mount_point == mount_point)
}

/// What an ending mount waits for.
pub(crate) fn ending_text(ending: &EndingMount) -> String {
    format!(
        "{}: the mount of {} is ending, but still {}; process {} serves it until then",
        ending.mount_point,
        ending.source,
        ending.in_use(),
        ending.daemon.pid()
    )
}

/// The status of the export at a socket.
pub(crate) fn ask(socket: &Path) -> Result<Export> {
    match ask_export(socket, None, PATIENCE) {
        Err(AskError::NotOurs) => bail!("{} is not a verimount export", printable(socket)),
        other => other.with_context(|| printable(socket).to_string()),
    }
}
