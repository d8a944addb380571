//! Volumes: writable disks of which every block is checked, in the format of the kernel's dm-integrity.
//!
//! A volume stores neither its algorithm nor its key nor its mode: they are given each time.

mod check;
mod files;
mod format;
mod grow;
mod header;

use std::path::Path;

use verimount::Error;
use verimount_content::open_file;
use verimount_source::ReadAt;

pub use check::{CheckOptions, Checked, check};
pub use files::{Access, Device, OpenFiles, VolumeFiles};
pub use format::{NewVolume, format};
pub use grow::{GrowBy, GrowOptions, Grown, grow};
pub use header::{backup_header, rebuild_header, restore_header};
pub use verimount_content::Watcher;

pub use verimount_integrity::{
    Algorithm, BadBlock, BadRange, BadReason, BlockSize, CommitTimer, DiskSize,
    Error as VolumeError, FormatOptions, Integrity, Interleave, Key, Mode, OpenOptions, Padding,
    RestoreOptions, SECTOR, Shape, Superblock, TagSize, Volume, VolumeStats,
};
pub use verimount_nbd::{Server, SocketAccess, memory_share};
pub use verimount_serve::{Disk, DiskAccess, VolumeExport, VolumeFs};
pub use verimount_sys::return_freed_memory;

pub use crate::fault::of_volume as kind_of;
use crate::fault::{ContentFault, Fault};

/// What the volume at a path says of itself, also while it is in use. Nothing of it is verified.
///
/// # Errors
/// [`WrongFormat`](verimount::ErrorKind::WrongFormat), [`Corrupt`](verimount::ErrorKind::Corrupt), and those of reading.
pub fn superblock(path: &Path) -> Result<Superblock, Error> {
    Superblock::read(&open_file(path)?).map_err(|error| Fault::volume(path, error))
}

/// What the file or block device at a path says of itself, and its size in bytes, if it is a volume. Nothing of it is verified.
///
/// # Errors
/// [`Corrupt`](verimount::ErrorKind::Corrupt), and those of reading.
pub fn describe(path: &Path) -> Result<Option<(Superblock, u64)>, Error> {
    let file = open_file(path)?;
    let superblock = match Superblock::read(&file) {
        Err(VolumeError::NotIntegrity | VolumeError::TooSmall { .. }) => return Ok(None),
        other => other.map_err(|error| Fault::volume(path, error))?,
    };
    let (size, disk) = (
        file.size(),
        superblock.provided_data_sectors.saturating_mul(SECTOR),
    );
    let is_alone = superblock.shape.interleave.is_some();
    if is_alone && disk >= size {
        Err(Fault::Truncated { size, disk }.at(path))
    } else {
        Ok(Some((superblock, size)))
    }
}

/// Whether an error is about a volume, which has an integrity algorithm and perhaps a key in the place of a seal.
pub fn is_about_volume(error: &Error) -> bool {
    matches!(ContentFault::other(error), Some(Fault::Volume(_)))
}

/// Opens a volume for exclusive use, or for reading only in a mode that is read-only. The files are
/// returned for their statistics.
///
/// # Errors
/// [`Busy`](verimount::ErrorKind::Busy) while another process has it, and those of reading.
pub fn open(files: &VolumeFiles, options: &OpenOptions) -> Result<(Volume, OpenFiles), Error> {
    let access = if options.mode.is_read_only() {
        Access::ReadOnly
    } else {
        Access::Write
    };
    let opened = files.open(access)?;
    let volume = Volume::open(opened.devices(), options);
    let volume = volume.map_err(|error| Fault::volume(&files.volume, error))?;
    Ok((volume, opened))
}
