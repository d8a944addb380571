use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io,
    num::NonZeroU32,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::OFlags;
use verimount::{Opened, image};
use verimount_names::printable;
use verimount_source::{Blocks, FileSource, ReadAt};
use verimount_verity::{Corruption, Error as VerityError, Sealed, dm_verity::HashArea};

use crate::{
    message::say,
    options::{ReadArgs, TrustArgs},
};

/// Opens `path` with these options, and says so if less is verified than could be.
pub(crate) fn open(path: &Path, trust: &TrustArgs, read: &ReadArgs) -> Result<Opened> {
    let options = read.options(trust.dm_verity.hash_offset());
    let opened = verimount::open(path, &trust.trust()?, &options)?;
    if opened.has_unused_seal() {
        say(format_args!(
            "note: {} is sealed, but nothing of it is checked: to have it checked, give no \
             --unverified",
            printable(path)
        ));
    }
    if let Some(identity) = opened.identity().filter(|_| !trust.is_given()) {
        say(format_args!(
            "note: {} is checked only against its own digest, {identity}: \
             give --digest or --key to make sure that it is the right file",
            printable(path),
        ));
    }
    Ok(opened)
}

/// Finds the seal of a file; fails if there is none.
pub(crate) fn find_seal(
    path: &Path,
    source: Arc<dyn ReadAt>,
    sidecar: Option<&Path>,
    open: impl Fn(&Path) -> Result<Arc<dyn ReadAt>>,
) -> Result<Sealed> {
    if let Some(sealed) = look_for_seal(path, source.clone(), sidecar, open)? {
        return Ok(sealed);
    }
    // An image stores its size at its beginning, so truncation can be told from a missing seal.
    if let Some(error) = image::truncation(source) {
        return Err(error).with_context(|| printable(path).to_string());
    }
    bail!(
        "{0} has no seal at its end, and {1} does not exist: if it is complete, seal it with \
         verimount seal {0}, or read it without verification with --unverified",
        printable(path),
        printable(&sidecar_path(path))
    )
}

/// Looks for a seal: in `sidecar` if given, else at the end of the file, else in `FILE.verity`.
/// `open` opens a sidecar.
pub(crate) fn look_for_seal(
    path: &Path,
    source: Arc<dyn ReadAt>,
    sidecar: Option<&Path>,
    open: impl Fn(&Path) -> Result<Arc<dyn ReadAt>>,
) -> Result<Option<Sealed>> {
    if let Some(sidecar) = sidecar {
        return open_sidecar(path, source, sidecar, open(sidecar)?).map(Some);
    }
    match Sealed::open_appended(source.clone()) {
        Err(VerityError::NotSealed) => {}
        other => return other.map(Some).with_context(|| printable(path).to_string()),
    }
    let sidecar = sidecar_path(path);
    match sidecar.exists() {
        true => open_sidecar(path, source, &sidecar, open(&sidecar)?).map(Some),
        false => Ok(None),
    }
}

fn open_sidecar(
    path: &Path,
    data: Arc<dyn ReadAt>,
    sidecar: &Path,
    seal: Arc<dyn ReadAt>,
) -> Result<Sealed> {
    let shown = || printable(sidecar).to_string();
    match Sealed::open_sidecar(data.clone(), seal.clone()) {
        Err(VerityError::NotSealed) if HashArea::open_beside(data, seal, 0).is_ok() => bail!(
            "{} is a dm-verity hash area: give its root hash with --root-hash",
            printable(sidecar)
        ),
        Err(VerityError::NotSealed) => bail!("{} does not contain a seal", printable(sidecar)),
        Err(VerityError::Corrupt(Corruption::DataSize { expected, actual })) => bail!(
            "{} {}: it has {actual} bytes, but {expected} according to its seal in {}",
            printable(path),
            match actual < expected {
                true => "is truncated",
                false => "was changed",
            },
            shown()
        ),
        other => other.with_context(shown),
    }
}

/// A source for a file, with requests limited to `--block-size`.
pub(crate) fn in_blocks(file: FileSource, read: &ReadArgs) -> Arc<dyn ReadAt> {
    let size = read.block_size.0;
    match size.and_then(|size| NonZeroU32::new(size.bytes())) {
        Some(size) => Arc::new(Blocks::new(file, size)),
        None => Arc::new(file),
    }
}

/// The path of a file's sidecar, `FILE.verity`.
pub(crate) fn sidecar_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".verity");
    name.into()
}

/// Opens a regular file or block device for reading.
pub(crate) fn open_source(path: &Path) -> Result<FileSource> {
    FileSource::open(path)
        .map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => anyhow!("it is a directory"),
            _ => error.into(),
        })
        .with_context(|| printable(path).to_string())
}

/// Opens a regular file to change its end, and locks it against other processes that do the same.
pub(crate) fn open_to_change(path: &Path) -> Result<File> {
    let open = || {
        // Without blocking on a named pipe, which is refused below.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path)?;
        if !file.metadata()?.is_file() {
            bail!("a tree can be appended only to a regular file");
        }
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => bail!("it is in use by another process"),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    };
    open().with_context(|| printable(path).to_string())
}
