//! Queries the status of mounts and exports.

use std::{io, path::Path, time::Duration};

use thiserror::Error;
use verimount_mount::{DaemonEnd, NoAnswer};
use verimount_nbd::ask_status;
use verimount_sys::Listener;

use crate::Status;

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

/// The status of the mount on `directory`.
///
/// # Errors
/// [`AskError::Mount`] and [`AskError::NoStatus`].
pub fn ask_mount(directory: &Path) -> Result<Status, AskError> {
    let status = verimount_mount::ask_mount(directory)?;
    Ok(serde_json::from_slice(&status)?)
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
    let answer = ask_status(socket, user, time)?;
    Ok(Export {
        status: serde_json::from_slice(&answer.status)?,
        listener: answer.listener,
    })
}

impl From<verimount_nbd::AskError> for AskError {
    fn from(error: verimount_nbd::AskError) -> Self {
        match error {
            verimount_nbd::AskError::Full => Self::Full,
            verimount_nbd::AskError::Checking => Self::Checking,
            verimount_nbd::AskError::Ended => Self::Ended,
            verimount_nbd::AskError::Cancelled => Self::Cancelled,
            verimount_nbd::AskError::System(error)
                if error.kind() == io::ErrorKind::ConnectionRefused =>
            {
                Self::DeadExport
            }
            verimount_nbd::AskError::System(error) => Self::System(error),
            _ => Self::NotOurs,
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
