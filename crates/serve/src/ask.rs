//! Queries the status of mounts and exports.

use std::{fs::File, io, path::Path, time::Duration};

use rustix::{fs::getxattr, io::Errno};
use thiserror::Error;
use verimount_nbd::ask_status;
use verimount_sys::{Listener, mount_status};

use crate::{DaemonEnd, STATUS_XATTR, Status, mount_table::our_mount_on};

/// The longest status of a mount: the kernel's limit for an extended attribute.
const MAX_STATUS: usize = 64 << 10;

/// Why there is no status.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AskError {
    /// It is not a mount or export of Verimount.
    #[error("it is not a verimount mount or export")]
    NotOurs,
    /// Another user has mounted it.
    #[error("another user has mounted it, whose process could say anything: ask as that user")]
    Foreign,
    /// The process of the mount has ended without unmounting it.
    #[error(
        "it is dead, as its process has ended: mount again, or remove it with verimount umount"
    )]
    DeadMount,
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
/// [`AskError::NotOurs`] unless the mount table shows a mount of Verimount: on any other file system
/// anybody could have set the attribute. [`AskError::Foreign`] unless root or this user has mounted it. Any other
/// [`AskError`] that is not about exports.
pub fn ask_mount(directory: &Path) -> Result<Status, AskError> {
    let mount = our_mount_on(directory)?.ok_or(AskError::NotOurs)?;
    if !mount.is_believed() {
        return Err(AskError::Foreign);
    }
    let mut text = vec![0; MAX_STATUS];
    let text = match getxattr(directory, STATUS_XATTR, &mut text[..]) {
        Ok(len) => &text[..len],
        Err(Errno::NODATA) => return Err(AskError::NotOurs),
        Err(Errno::NOTCONN) => return Err(AskError::DeadMount),
        // A mount without extended attributes.
        Err(Errno::OPNOTSUPP) => {
            text = ask_by_ioctl(directory)?;
            &text
        }
        Err(error) => return Err(io::Error::from(error).into()),
    };
    Ok(serde_json::from_slice(text)?)
}

fn ask_by_ioctl(directory: &Path) -> Result<Vec<u8>, AskError> {
    let asked = mount_status(File::open(directory)?);
    asked.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOTTY) => AskError::NotOurs,
        _ => error.into(),
    })
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
