use std::{io::Write, path::Path};

use verimount::{Error, Step};
use verimount_content::{Watcher, open_file, step};
use verimount_integrity::{
    BadRange, CheckedHeader, Error as VolumeError, FormatOptions, Header, RestoreOptions,
    Superblock, check_header,
};
use verimount_source::{OutputFile, all_processors};

use super::{Access, OpenFiles, VolumeFiles};
use crate::fault::{ContentFault, Fault};

/// The permissions of a copy, which are no wider than those that a volume should have.
const MODE: u32 = 0o600;

/// Reads the superblock of a volume, or a copy of it.
pub(super) fn read(path: &Path) -> Result<Header, Error> {
    Header::read(&open_file(path)?).map_err(|error| Fault::volume(path, error))
}

/// Copies the superblock of a volume, which may be in use, to a new file.
///
/// # Errors
/// Those of [`superblock`](super::superblock), and of writing.
pub fn backup_header(volume: &Path, to: &Path) -> Result<(), Error> {
    write(&read(volume)?, to)
}

/// Makes the superblock again that formatting with these options made, compares it with all tags and data, and writes
/// it to a new file. The volume is not changed.
///
/// # Errors
/// [`Busy`](verimount::ErrorKind::Busy) while another process has the volume,
/// [`WrongContent`](verimount::ErrorKind::WrongContent) if they do not agree,
/// [`Cancelled`](verimount::ErrorKind::Cancelled), those of reading and writing.
pub fn rebuild_header(
    files: &VolumeFiles,
    to: &Path,
    format: &FormatOptions,
    options: &RestoreOptions,
    watcher: &Watcher,
    found: &mut dyn FnMut(BadRange),
) -> Result<Superblock, Error> {
    let opened = files.open(Access::ReadOnly)?;
    let header = Header::rebuilt(&opened.devices(), format);
    let checked = compare(files, &opened, header, options, watcher, found)?;
    write(&checked, to)?;
    Ok(checked.superblock().clone())
}

/// Compares a copy of a superblock with all tags and data of a volume, and writes it to the volume if they agree.
///
/// # Errors
/// As [`rebuild_header`].
pub fn restore_header(
    files: &VolumeFiles,
    from: &Path,
    options: &RestoreOptions,
    watcher: &Watcher,
    found: &mut dyn FnMut(BadRange),
) -> Result<Superblock, Error> {
    let header = read(from)?;
    let opened = files.open(Access::Write)?;
    let checked = compare(files, &opened, Ok(header), options, watcher, found)?;
    let restored = checked.restore(&opened.devices(), &options.integrity);
    restored.map_err(|error| Fault::volume(&files.volume, error))?;
    Ok(checked.superblock().clone())
}

fn compare(
    files: &VolumeFiles,
    opened: &OpenFiles,
    header: Result<Header, VolumeError>,
    options: &RestoreOptions,
    watcher: &Watcher,
    found: &mut dyn FnMut(BadRange),
) -> Result<CheckedHeader, Error> {
    let (devices, threads) = (opened.devices(), all_processors());
    let mut watch = watcher.watch();
    let mut progress = step(&mut watch, Step::Check, opened.data_size());
    header
        .and_then(|header| check_header(&devices, &header, options, threads, found, &mut progress))
        .map_err(|error| Fault::volume(&files.volume, error))
}

fn write(header: &Header, to: &Path) -> Result<(), Error> {
    let write = || {
        let file = OutputFile::new(to, MODE)?;
        file.file().write_all(&header.to_bytes())?;
        file.commit()
    };
    write().map_err(|error| ContentFault::io(to, error))
}
