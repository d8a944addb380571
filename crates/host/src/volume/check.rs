use std::{io, ops::Range};

use verimount::{Error, Step};
use verimount_content::{Watch, Watcher, step};
use verimount_integrity::{
    BadRange, Error as VolumeError, Integrity, Mode, OpenOptions, SECTOR, Volume,
};
use verimount_source::all_processors;

use super::{Access, OpenFiles, VolumeFiles};
use crate::fault::{ContentFault, Fault};

/// How a volume is checked.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// The algorithms and keys of the volume.
    pub integrity: Integrity,
    /// Whether discarded blocks are good.
    pub allow_discards: bool,
    /// Sectors whose data is accepted first, good or bad: their tags are set to match.
    pub accept_unverified: Vec<Range<u64>>,
    /// Who watches the check.
    pub watcher: Watcher,
}

/// What [`check`] found besides bad ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The size of the volume's disk in bytes.
    pub size: u64,
    /// The first sector whose tag has still to be recalculated, which takes writing. From there on, blocks that were
    /// being written in the crash were not checked.
    pub unchecked_from: Option<u64>,
}

/// Reads all blocks of a volume that is not in use, and tells `found` every bad range, in order.
///
/// Nothing is written, and the right to read is enough: what a journal holds is read from memory. But tags that have
/// to be recalculated after a crash are recalculated first, if the volume can be written.
///
/// # Errors
/// [`Busy`](verimount::ErrorKind::Busy) while another process has the volume, [`Cancelled`](verimount::ErrorKind::Cancelled), those of
/// reading.
pub fn check(
    files: &VolumeFiles,
    options: &CheckOptions,
    found: &mut dyn FnMut(&BadRange),
) -> Result<Checked, Error> {
    let watch = &mut options.watcher.watch();
    let volume = open(files, options)?;
    let checked = check_open(&volume, options, found, watch);
    // Close it even if the check was cancelled.
    let closed = volume.close();
    checked
        .and_then(|checked| closed.map(|()| checked))
        .map_err(|error| Fault::volume(&files.volume, error))
}

/// Opens a volume in the mode that changes it as little as possible.
fn open(files: &VolumeFiles, options: &CheckOptions) -> Result<Volume, Error> {
    let devices = files.open(Access::ReadOnly)?;
    let superblock = devices
        .superblock()
        .map_err(|error| Fault::volume(&files.volume, error))?;
    let must_write = !options.accept_unverified.is_empty();
    let is_incomplete = superblock.dirty_bitmap || superblock.recalculation_sector().is_some();
    if !must_write && !is_incomplete {
        return open_in(Mode::ReadOnly, files, &devices, options);
    }
    drop(devices);
    match files.open(Access::Write) {
        Err(error) if !must_write && cannot_be_written(&error) => {
            let devices = files.open(Access::ReadOnly)?;
            open_in(Mode::ReadOnly, files, &devices, options)
        }
        devices => {
            let mode = if superblock.dirty_bitmap {
                Mode::Bitmap
            } else {
                Mode::Direct
            };
            open_in(mode, files, &devices?, options)
        }
    }
}

fn open_in(
    mode: Mode,
    files: &VolumeFiles,
    devices: &OpenFiles,
    options: &CheckOptions,
) -> Result<Volume, Error> {
    let options = OpenOptions {
        integrity: options.integrity.clone(),
        mode,
        allow_discards: options.allow_discards,
        ..OpenOptions::default()
    };
    Volume::open(devices.devices(), &options).map_err(|error| Fault::volume(&files.volume, error))
}

/// Whether a device can be read, but not written.
fn cannot_be_written(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(ContentFault::of(error), ContentFault::Io(reason) if matches!(reason.kind(), PermissionDenied | ReadOnlyFilesystem))
}

fn check_open(
    volume: &Volume,
    options: &CheckOptions,
    found: &mut dyn FnMut(&BadRange),
    watch: &mut Watch<'_>,
) -> Result<Checked, VolumeError> {
    if volume.mode() != Mode::ReadOnly {
        recalculate(volume, watch)?;
    }
    for sectors in &options.accept_unverified {
        volume.accept_unverified(sectors.clone())?;
    }
    let checked = Checked {
        size: volume.size(),
        unchecked_from: volume.recalculation_sector(),
    };
    let mut progress = step(watch, Step::Check, checked.size);
    volume.check(all_processors(), &mut |bad| found(&bad), &mut progress)?;
    Ok(checked)
}

/// Finishes a pending recalculation, without which a part of the volume cannot be checked.
fn recalculate(volume: &Volume, watch: &mut Watch<'_>) -> Result<(), VolumeError> {
    let Some(sector) = volume.recalculation_sector() else {
        return Ok(());
    };
    let mut progress = step(watch, Step::Recalculate, volume.size() - sector * SECTOR);
    volume.recalculate(&mut progress)
}
