use std::{
    fs::{self, File},
    io,
    num::NonZeroU64,
    path::Path,
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};
use verimount::{Error, Step};
use verimount_content::{Watcher, setters, step, watched};
use verimount_integrity::{FormatOptions, Superblock, format as format_devices};
use verimount_source::{OutputFile, ReadAt};

use super::{Access, Device, VolumeFiles};
use crate::fault::{ContentFault, Fault};

/// How much of a device to check for contents: more than any file system leaves unused at its
/// beginning.
const LOOKED_AT: u64 = 1 << 20;

/// How a volume is formatted.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct NewVolume {
    format: FormatOptions,
    file_size: Option<NonZeroU64>,
    preallocate: bool,
    replace: bool,
    watcher: Watcher,
}

impl NewVolume {
    /// A volume in this format. Whether the devices are zero is found out.
    pub fn new(format: FormatOptions) -> Self {
        Self {
            format,
            ..Self::default()
        }
    }

    setters! {
        /// The size of a new sparse file to create, in bytes.
        file_size: impl Into<Option<NonZeroU64>> => file_size;

        /// Whether all space of the new file is reserved now, so that no write fails later for lack of it.
        preallocate: bool => preallocate;

        /// Whether devices are formatted that are not empty.
        replace: bool => replace;
    }
}

watched!(NewVolume);

/// Formats files or block devices as a volume whose blocks are all zero.
///
/// Where [`FormatOptions::disk_size`] is given and the file does not exist, a new one is created that is
/// as large as that needs. A new file gets its name when it is formatted.
///
/// # Errors
/// [`WouldReplace`](verimount::ErrorKind::WouldReplace), [`InvalidInput`](verimount::ErrorKind::InvalidInput) for sizes that do not go
/// together, [`Cancelled`](verimount::ErrorKind::Cancelled), those of writing.
pub fn format(files: &VolumeFiles, new: &NewVolume) -> Result<Superblock, Error> {
    let file = match new_file_size(files, new)? {
        Some(size) => Some(new_file(&files.volume, size, new.preallocate)?),
        None if new.preallocate => {
            let error = io::Error::other("only a new file can be preallocated");
            return Err(ContentFault::io(&files.volume, error));
        }
        None => None,
    };
    let opened = match &file {
        Some(file) => files.open_with(&file.path_before_commit(), Access::Write)?,
        None => files.open(Access::Write)?,
    };
    if !new.replace {
        for (device, path) in opened.each().iter().zip(files.paths()) {
            refuse_to_overwrite(device, path)?;
        }
    }
    let mut devices = opened.each().iter();
    let options = FormatOptions {
        is_zero: devices.all(|device| device.inner().is_known_zero()),
        ..new.format.clone()
    };
    let mut watch = new.watcher.watch();
    let mut progress = step(&mut watch, Step::Format, opened.data_size());
    let superblock = format_devices(opened.devices(), &options, &mut progress)
        .map_err(|error| Fault::volume(&files.volume, error))?;
    if let Some(file) = file {
        let committed = file.commit();
        committed.map_err(|error| ContentFault::io(&files.volume, error))?;
    }
    Ok(superblock)
}

/// The size of the file to create, if there is to be a new one.
fn new_file_size(files: &VolumeFiles, new: &NewVolume) -> Result<Option<NonZeroU64>, Error> {
    let Some(disk) = new.format.disk_size else {
        return Ok(new.file_size);
    };
    let exists =
        fs::exists(&files.volume).map_err(|error| ContentFault::io(&files.volume, error))?;
    match (exists, &files.data_device) {
        (true, _) => Ok(None),
        (false, Some(_)) => Err(Fault::NoDataSize.at(&files.volume)),
        (false, None) => {
            let needed = new.format.storage_needed(disk);
            let needed = needed.map_err(|error| Fault::volume(&files.volume, error))?;
            Ok(NonZeroU64::new(needed))
        }
    }
}

fn new_file(path: &Path, size: NonZeroU64, is_preallocated: bool) -> Result<OutputFile, Error> {
    let new = || {
        let file = OutputFile::new(path, 0o666)?;
        if is_preallocated {
            preallocate(file.file(), size)?;
        } else {
            file.file().set_len(size.get())?;
        }
        Ok(file)
    };
    new().map_err(|error| ContentFault::io(path, error))
}

fn preallocate(file: &File, size: NonZeroU64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, size.get()) {
        Err(Errno::OPNOTSUPP) => Err(io::Error::other(
            "the file system cannot reserve space for a file",
        )),
        other => Ok(other?),
    }
}

fn refuse_to_overwrite(device: &Device, path: &Path) -> Result<(), Error> {
    if device.inner().is_known_zero() {
        return Ok(());
    }
    let mut beginning = vec![0; device.size().min(LOOKED_AT) as usize];
    let read = device.read_exact_at(&mut beginning, 0);
    read.map_err(|error| Fault::volume(path, error.into()))?;
    if beginning.iter().all(|&byte| byte == 0) {
        Ok(())
    } else {
        Err(Fault::NotZero.at(path))
    }
}
