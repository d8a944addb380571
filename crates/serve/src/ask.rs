//! Queries the status of mounts and exports.

#[cfg(test)]
pub(crate) mod tests;

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use thiserror::Error;
use verimount_mount::{DaemonEnd, MountEntry, NoAnswer};
use verimount_nbd::client::{Reply, Until, ask, connect, leave, read_reply};
use verimount_sys::{Listener, listener};

use crate::{
    Status,
    export_options::{MAX_STATUS, STATUS},
};

/// Why there is no status.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AskError {
    /// The mount does not tell it.
    #[error(transparent)]
    Mount(#[from] NoAnswer),
    /// It is not an export of Verimount.
    #[error("it is not a verimount export")]
    NotOurs,
    /// Nobody listens at the socket any longer.
    #[error("nobody serves it, as its process has ended: serve again, or remove the socket")]
    DeadExport,
    /// The export has its maximum number of clients, so its status cannot be queried.
    #[error("the maximum number of clients is connected; try again later")]
    Full,
    /// It is being checked for somebody else.
    #[error("it is being checked already")]
    Checking,
    /// It ended before its check was finished.
    #[error("the check ended early: the export was ended, or it could not go on")]
    Ended,
    /// Nothing of it is verified, so that a check would find nothing.
    #[error("it is not checked: {0}; check the volume when it is closed")]
    Unchecked(String),
    /// The caller has cancelled a check.
    #[error("cancelled")]
    Cancelled,
    /// The system's error.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Its answer is not a status.
    #[error("its status: {0}")]
    NoStatus(#[from] serde_json::Error),
}

/// The status of a mount.
///
/// # Errors
/// [`AskError::Mount`] and [`AskError::NoStatus`].
pub fn ask_mount(mount: &MountEntry) -> Result<Status, AskError> {
    Ok(serde_json::from_slice(&mount.ask()?)?)
}

/// An export's status, and the process that sent it.
#[derive(Debug)]
pub struct Export {
    /// Its status.
    pub status: Status,
    listener: Listener,
}

/// The status of the export at `socket`, which must answer within `time`. If it must be a process of
/// `user`, no other is asked.
///
/// # Errors
/// Any [`AskError`] of exports; [`AskError::NotOurs`] for another user's, too.
pub fn ask_export(socket: &Path, user: Option<u32>, time: Duration) -> Result<Export, AskError> {
    let stream = connected(socket)?;
    let listener = listener(&stream)?;
    if user.is_some_and(|user| user != listener.user) {
        return Err(AskError::NotOurs);
    }
    let status = told_status(&mut Until::new(&stream, time))?;
    Ok(Export {
        status: serde_json::from_slice(&status)?,
        listener,
    })
}

fn told_status(server: &mut (impl Read + Write)) -> Result<Vec<u8>, AskError> {
    choose(server, STATUS)?;
    // Another server may close the connection on an unknown option.
    let reply = read_reply(server, STATUS, MAX_STATUS);
    let Reply::Told(status) = reply.map_err(|error| AskError::of(error, AskError::NotOurs))? else {
        return Err(AskError::NotOurs);
    };
    leave(server);
    Ok(status)
}

/// A connection to the export at `socket`.
pub(crate) fn connected(socket: &Path) -> Result<UnixStream, AskError> {
    connect(socket).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => AskError::DeadExport,
        _ => error.into(),
    })
}

/// Asks an export for one of [our options](crate::export_options).
pub(crate) fn choose(server: &mut (impl Read + Write), option: u32) -> Result<(), AskError> {
    ask(server, option).map_err(|error| AskError::of(error, AskError::Full))
}

impl AskError {
    /// What an error of a connection means. If it has ended, that means `ended`.
    pub(crate) fn of(error: io::Error, ended: Self) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => ended,
            io::ErrorKind::InvalidData => Self::NotOurs,
            _ => error.downcast().unwrap_or_else(Self::System),
        }
    }
}

impl Export {
    /// A handle to wait for the end of the serving process. The process id is the kernel's, as the
    /// export could claim any.
    pub fn end(&self) -> Option<DaemonEnd> {
        let daemon = self.status.served.daemon?;
        daemon.numbered(self.listener.process?).end()
    }
}
