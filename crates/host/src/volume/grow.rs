use std::{fs::File, io};

use verimount::{Error, Step};
use verimount_content::{Watcher, step};
use verimount_integrity::{
    DiskSize, Integrity, Mode, OpenOptions, SECTOR, Superblock, Volume, grow as grow_volume,
};
use verimount_source::ReadAt;

use super::{Access, Device, VolumeFiles};
use crate::fault::{ContentFault, Fault};

/// How far a volume grows.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub enum GrowBy {
    /// As far as its devices allow.
    #[default]
    Devices,
    /// As far as its devices allow, after its regular file was extended sparsely to this size in bytes.
    File(u64),
    /// To a disk of exactly this size. A regular file is first extended as far as that needs.
    Disk(DiskSize),
}

/// How a volume is grown.
#[derive(Debug, Clone, Default)]
pub struct GrowOptions {
    /// The algorithms and keys of the volume.
    pub integrity: Integrity,
    /// How far it grows.
    pub by: GrowBy,
    /// Who watches it.
    pub watcher: Watcher,
}

/// The size of a disk before and after, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grown {
    /// Before.
    pub old: u64,
    /// After; not less.
    pub new: u64,
}

/// Grows a volume that is not in use; its new blocks are zero. If interrupted, it keeps its old size.
///
/// # Errors
/// [`InvalidInput`](verimount::ErrorKind::InvalidInput) for a device that cannot be extended, and a size that is less,
/// [`Cancelled`](verimount::ErrorKind::Cancelled), those of writing.
pub fn grow(files: &VolumeFiles, options: &GrowOptions) -> Result<Grown, Error> {
    let GrowOptions { by, watcher, .. } = options;
    let by = *by;
    let options = OpenOptions {
        integrity: options.integrity.clone(),
        mode: Mode::Direct,
        ..OpenOptions::default()
    };
    let failed = |error| Fault::volume(&files.volume, error);
    let mut opened = files.open(Access::Write)?;
    let before = Superblock::read(&opened.each()[0]).map_err(failed)?;
    if let Some(size) = new_file_size(files, &opened.each()[0], &before, by)? {
        // Do not change a file that cannot be opened as a volume.
        let volume = Volume::open(opened.devices(), &options);
        volume.and_then(Volume::close).map_err(failed)?;
        lengthen(files, &opened.each()[0], size)?;
        // An open device has a fixed length, so reopen it.
        drop(opened);
        opened = files.open(Access::Write)?;
    }
    let old = before.provided_data_sectors * SECTOR;
    let disk = match by {
        GrowBy::Disk(disk) => Some(disk),
        GrowBy::Devices | GrowBy::File(_) => None,
    };
    let largest = disk.map_or(opened.data_size(), DiskSize::bytes);
    let mut watch = watcher.watch();
    let mut progress = step(&mut watch, Step::Grow, largest.saturating_sub(old));
    let after = grow_volume(opened.devices(), &options, disk, &mut progress).map_err(failed)?;
    let new = after.provided_data_sectors * SECTOR;
    Ok(Grown { old, new })
}

/// The size to which the file is to be extended, if it is.
fn new_file_size(
    files: &VolumeFiles,
    device: &Device,
    superblock: &Superblock,
    by: GrowBy,
) -> Result<Option<u64>, Error> {
    match by {
        GrowBy::Devices => Ok(None),
        GrowBy::File(size) => Ok(Some(size)),
        GrowBy::Disk(_) if files.data_device.is_some() || !files.volume.is_file() => Ok(None),
        GrowBy::Disk(disk) => {
            let needed = superblock.storage_needed(disk);
            let needed = needed.map_err(|error| Fault::volume(&files.volume, error))?;
            Ok((needed > device.size()).then_some(needed))
        }
    }
}

fn lengthen(files: &VolumeFiles, device: &Device, size: u64) -> Result<(), Error> {
    let io = |error: io::Error| ContentFault::io(&files.volume, error);
    let file = File::options()
        .write(true)
        .open(&files.volume)
        .map_err(io)?;
    if !file.metadata().map_err(io)?.is_file() {
        return Err(Fault::CannotExtend.at(&files.volume));
    }
    let len = device.size();
    if size < len {
        return Err(Fault::CannotShrink { size: len }.at(&files.volume));
    }
    // Sync, so that a crash cannot leave the volume longer than its file.
    file.set_len(size)
        .and_then(|()| file.sync_all())
        .map_err(io)
}
