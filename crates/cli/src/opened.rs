use std::{
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions, TryLockError},
    io,
    num::NonZeroU32,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Error, Result, anyhow, bail};
use rustix::fs::OFlags;
use verimount_names::printable;
use verimount_serve::Pin;
use verimount_source::{Blocks, FileSource, ReadAhead, ReadAt};
use verimount_tree::{SingleFile, StoredFile, Tree};
use verimount_verity::{
    Corruption, Error as VerityError, Sealed, VerifiedReader, dm_verity::HashArea,
};

use crate::{
    message::say,
    options::{Grounds, ReadArgs, TrustArgs, all_processors},
};

/// A file opened for reading, with verification unless declined.
pub(crate) struct Opened {
    /// Its content.
    pub(crate) content: Arc<dyn ReadAt>,
    /// The reader that verifies the content.
    pub(crate) reader: Option<Arc<VerifiedReader>>,
    /// The trust policy of the reader.
    pub(crate) pin: Pin,
    path: PathBuf,
    stored: StoredFile,
}

impl Opened {
    /// Opens `path` with these options.
    pub(crate) fn new(path: &Path, trust: &TrustArgs, read: &ReadArgs) -> Result<Self> {
        let shown = || printable(path).to_string();
        let file = open_source(path)?;
        let stored = StoredFile::of(file.file()).with_context(shown)?;
        let source = in_blocks(file, read);
        let grounds = trust.grounds()?;
        let pin = grounds.pin();
        let (content, reader): (Arc<dyn ReadAt>, _) = match grounds {
            Grounds::Unverified => {
                if is_sealed(path, &source) {
                    say(format_args!(
                        "note: {} is sealed, but nothing of it is checked: to have it checked, give no \
                         --unverified",
                        shown()
                    ));
                }
                (source, None)
            }
            Grounds::Verified(trust) => {
                let open = |sidecar: &Path| Ok(in_blocks(open_source(sidecar)?, read));
                let sealed = find_seal(path, source, read.sidecar.as_deref(), open)?;
                let reader = VerifiedReader::new(&sealed, &trust, read.verify_options());
                let reader = Arc::new(reader.map_err(|error| refused(path, error))?);
                (reader.clone(), Some(reader))
            }
            Grounds::DmVerity(root_hash) => {
                let reader = Arc::new(trust.dm_verity.open(root_hash, path, source, read)?);
                (reader.clone(), Some(reader))
            }
        };
        if let Some(reader) = reader.as_ref().filter(|_| !trust.is_given()) {
            say(format_args!(
                "note: {} is checked only against its own digest, {}: \
                 give --digest or --key to make sure that it is the right file",
                shown(),
                reader.identity()
            ));
        }
        Ok(Self {
            content,
            reader,
            pin,
            path: path.to_owned(),
            stored,
        })
    }

    /// The same, with read-ahead for sequential readers.
    pub(crate) fn read_ahead(mut self) -> Self {
        self.content = Arc::new(ReadAhead::new(self.content, all_processors()));
        self
    }

    /// The tree of the content as an image; `None` if it is not an image.
    pub(crate) fn image(&self) -> Result<Option<Box<dyn Tree>>> {
        verimount_image::open(self.content.clone())
            .with_context(|| printable(&self.path).to_string())
    }

    /// The tree of the content as an image; fails if it is not an image.
    pub(crate) fn required_image(&self) -> Result<Box<dyn Tree>> {
        self.image()?
            .with_context(|| format!("{} is not an image", printable(&self.path)))
    }

    /// The content as a single file.
    pub(crate) fn single_file(&self) -> SingleFile {
        let name = self.path.file_name().unwrap_or(OsStr::new("data"));
        SingleFile::new(name, &self.stored, self.content.clone())
    }
}

/// Adds advice to the error of a file with the wrong digest, and the path to any error.
pub(crate) fn refused(path: &Path, error: VerityError) -> Error {
    let path = printable(path);
    match error {
        VerityError::WrongDigest { .. } | VerityError::WrongRootHash { .. } => anyhow!(
            "{path}: {error}: it is another version, or it was replaced; verimount info {path} shows \
             what it is; ask its author for the right digest"
        ),
        other => Error::from(other).context(path.to_string()),
    }
}

/// Whether a file could be verified.
fn is_sealed(path: &Path, source: &Arc<dyn ReadAt>) -> bool {
    Sealed::open_appended(source.clone()).is_ok() || sidecar_path(path).exists()
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
    if let Some(error) = verimount_image::truncation(source) {
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
