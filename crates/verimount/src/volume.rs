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
pub use grow::{GrowBy, Grown, grow};

use verimount_integrity::{OpenOptions, Volume};

use crate::Error;

/// Opens a volume for exclusive use, or for reading only in a mode that is read-only. The files are
/// returned for their statistics.
///
/// # Errors
/// [`Error::Volume`] and [`Error::Io`]; of kind [`ResourceBusy`](std::io::ErrorKind::ResourceBusy) while
/// another process has it.
pub fn open(files: &VolumeFiles, options: &OpenOptions) -> Result<(Volume, OpenFiles), Error> {
    let access = match options.mode.is_read_only() {
        true => Access::ReadOnly,
        false => Access::Write,
    };
    let opened = files.open(access)?;
    let volume = Volume::open(opened.devices(), options);
    let volume = volume.map_err(|error| Error::volume(&files.volume, error))?;
    Ok((volume, opened))
}
