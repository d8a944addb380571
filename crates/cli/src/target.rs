use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, FileType, statat};
use verimount_host::{
    mounts::{
        AskError, EndingMount, Export, NoAnswer, Status, ask_export, ask_mount, ending_mounts,
    },
    printable,
};

/// How long an export may take to answer, which it does without accessing storage.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A mount or export, which has a status and can be ended.
pub(crate) enum Target {
    /// The mount on this directory.
    Mount(PathBuf),
    /// The export at this socket.
    Export(PathBuf),
}

impl Target {
    /// A mount point or a socket, by the type of the file. Unlike `fs::metadata`, this has no automounter mount.
    pub(crate) fn at(path: &Path) -> Self {
        let found = statat(CWD, path, AtFlags::NO_AUTOMOUNT);
        let file_type = found.map(|found| FileType::from_raw_mode(found.st_mode));
        if file_type == Ok(FileType::Socket) {
            Self::Export(path.to_owned())
        } else {
            Self::Mount(path.to_owned())
        }
    }

    /// Its status.
    pub(crate) fn status(&self) -> Result<Status> {
        match self {
            Self::Mount(directory) => match ask_mount(directory) {
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
