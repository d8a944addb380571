//! Asks a mount for its status, without knowing what that says.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::net::UnixStream,
    path::Path,
};

use rustix::{fs::getxattr, io::Errno};
use thiserror::Error;
use verimount_sys::mount_status;

use crate::{MountEntry, mount_table::path_of};

/// The extended attribute of a mount's root directory that holds its status.
pub const STATUS_XATTR: &str = "user.verimount.status";

/// The longest status of a mount: the kernel's limit for an extended attribute.
const MAX_STATUS: usize = 64 << 10;

/// Why a mount does not tell its status.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// It is not a mount of Verimount.
    #[error("it is not a verimount mount")]
    NotOurs,
    /// Another user has mounted it.
    #[error("another user has mounted it, whose process could say anything: ask as that user")]
    Foreign,
    /// The process of the mount has ended without unmounting it.
    #[error(
        "it is dead, as its process has ended: mount again, or remove it with verimount umount"
    )]
    Dead,
    /// The system's error.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl MountEntry {
    /// The status that it tells.
    ///
    /// # Errors
    /// [`NoAnswer::NotOurs`] unless it is still mounted there: on any other file system anybody could have set the attribute.
    /// [`NoAnswer::Foreign`] unless root or this user has mounted it. Any other [`NoAnswer`].
    pub fn ask(&self) -> Result<Vec<u8>, NoAnswer> {
        if !self.is_believed() {
            return Err(NoAnswer::Foreign);
        }
        if self.is_native() {
            return self.ask_at_socket();
        }
        let root = self.root()?.ok_or(NoAnswer::NotOurs)?;
        let mut status = vec![0; MAX_STATUS];
        match getxattr(path_of(&root), STATUS_XATTR, &mut status[..]) {
            Ok(len) => {
                status.truncate(len);
                Ok(status)
            }
            Err(Errno::NODATA) => Err(NoAnswer::NotOurs),
            Err(Errno::NOTCONN) => Err(NoAnswer::Dead),
            // A mount without extended attributes.
            Err(Errno::OPNOTSUPP) => ask_by_ioctl(&path_of(&root)),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

impl MountEntry {
    fn ask_at_socket(&self) -> Result<Vec<u8>, NoAnswer> {
        let socket = UnixStream::connect(&self.source);
        let socket = socket.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => NoAnswer::Dead,
            _ => error.into(),
        })?;
        let mut status = Vec::new();
        socket.take(MAX_STATUS as u64).read_to_end(&mut status)?;
        Ok(status)
    }
}

fn ask_by_ioctl(directory: &Path) -> Result<Vec<u8>, NoAnswer> {
    let asked = mount_status(File::open(directory)?);
    asked.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOTTY) => NoAnswer::NotOurs,
        _ => error.into(),
    })
}
