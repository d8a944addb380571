//! Volumes: writable disks of which every block is checked, in the format of the kernel's dm-integrity.
//!
//! A volume stores neither its algorithm nor its key nor its mode: they are given each time.

mod check;
mod files;
mod format;
mod grow;

pub use check::{CheckOptions, Checked, check};
pub use files::{Access, Device, OpenFiles, VolumeFiles};
pub use format::{NewVolume, format};
pub use grow::{GrowBy, GrowOptions, Grown, grow};

pub use verimount_integrity::{
    Algorithm, BadBlock, BadRange, BadReason, BlockSize, CommitTimer, DiskSize,
    Error as VolumeError, FormatOptions, Integrity, Interleave, Key, Mode, OpenOptions, Padding,
    SECTOR, Superblock, TagSize, Volume, VolumeStats,
};
pub use verimount_nbd::{Server, SocketAccess, memory_share};
pub use verimount_serve::{Disk, DiskAccess, VolumeExport, VolumeFs};
pub use verimount_sys::return_freed_memory;

pub use crate::error_kind::of_volume as kind_of;
use crate::{
    Error,
    fault::{ContentFault, Fault},
};

/// Whether an error is about a volume, which has an integrity algorithm and perhaps a key in the place of a seal.
pub fn is_about_volume(error: &Error) -> bool {
    matches!(ContentFault::other(error), Some(Fault::Volume(_)))
}

/// Opens a volume for exclusive use, or for reading only in a mode that is read-only. The files are
/// returned for their statistics.
///
/// # Errors
/// [`Busy`](crate::ErrorKind::Busy) while another process has it, and those of reading.
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
