//! Asking mounts and exports for their status.

use std::{fs::File, io, path::Path, time::Duration};

use rustix::{fs::getxattr, io::Errno};
use thiserror::Error;
use verimount_nbd::ask_status;
use verimount_sys::mount_status;

use crate::{DaemonEnd, STATUS_XATTR, Status, mount_table::is_mount};

/// The longest status of a mount: the kernel's limit for an extended attribute.
const MAX_STATUS: usize = 64 << 10;

/// Why there is no status.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AskError {
    /// It is no mount or export of Verimount.
    #[error("it is not a verimount mount or export")]
    NotOurs,
    /// As many clients are connected as may be, so that nobody can ask.
    #[error("as many clients are connected as may be: nobody can ask it now")]
    Full,
    /// What the system says.
    #[error(transparent)]
    System(#[from] io::Error),
    /// What it tells is no status.
    #[error("its status: {0}")]
    NoStatus(#[from] serde_json::Error),
}

/// Asks what is mounted on `directory`.
///
/// # Errors
/// [`AskError::NotOurs`] unless the mount table shows a mount of ours: elsewhere, anybody could have set
/// the attribute. Any other [`AskError`] but [`AskError::Full`].
pub fn ask_mount(directory: &Path) -> Result<Status, AskError> {
    if !is_mount(directory)? {
        return Err(AskError::NotOurs);
    }
    let mut text = vec![0; MAX_STATUS];
    let text = match getxattr(directory, STATUS_XATTR, &mut text[..]) {
        Ok(len) => &text[..len],
        Err(Errno::NODATA) => return Err(AskError::NotOurs),
        // It has no extended attributes.
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

/// What an export said, and who said it.
#[derive(Debug)]
pub struct Export {
    /// Its status.
    pub status: Status,
    process: Option<i32>,
}

/// Asks the server at `socket`, which has `time` to answer.
///
/// # Errors
/// Any [`AskError`].
pub fn ask_export(socket: &Path, time: Duration) -> Result<Export, AskError> {
    let answer = ask_status(socket, time).map_err(|error| match error {
        verimount_nbd::AskError::Full => AskError::Full,
        verimount_nbd::AskError::System(error) => AskError::System(error),
        _ => AskError::NotOurs,
    })?;
    Ok(Export {
        status: serde_json::from_slice(&answer.status)?,
        process: answer.process,
    })
}

impl Export {
    /// The end of the process that serves it. Which one that is, the kernel says: what the export says of
    /// itself could be any.
    pub fn end(&self) -> Option<DaemonEnd> {
        let daemon = self.status.served.daemon?;
        daemon.numbered(self.process?).end()
    }
}
