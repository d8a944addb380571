use std::{
    fs::{File, OpenOptions as FileOptions, TryLockError},
    io,
    ops::ControlFlow,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

use rustix::fs::OFlags;
use verimount_content::{Options, Place, Watch, Watcher, open_file, sidecar_path, step};
use verimount_source::{Fetch, FileSource, OutputFile, ReadAt, Unchecked, all_processors};
use verimount_verity::{
    Descriptor, Error as VerityError, FileDigest, Identity, SealLayout, Sealed, TreeParams,
    append_seal, build_tree,
    dm_verity::{self, HashArea, SealedDevice},
    is_signed, seal as write_seal,
};

use crate::{
    Error, Location, ModelSignature, Step,
    fault::{ContentFault, Fault},
    model::seal_checked,
};

/// How a file is sealed. By default, with a tree of fs-verity in `FILE.verity`: SHA-256 in blocks of 4 KiB.
#[derive(Debug, Clone, Default)]
pub struct SealOptions {
    /// The format and shape of the Merkle tree.
    pub format: SealFormat,
    /// Whether the tree is appended to the file, instead of written to `FILE.verity`.
    pub append: bool,
    /// Whether a `FILE.verity` is replaced that is signed or not a seal.
    pub replace: bool,
    /// The model signature of the file, whose content must be the one that is signed. It is compared while it is read for the
    /// tree, once, which cannot be [appended](Self::append) then.
    pub model_signature: Option<ModelSignature>,
    /// Who watches it.
    pub watcher: Watcher,
}

/// How a digest is computed. By default, SHA-256 in blocks of 4 KiB.
#[derive(Debug, Clone, Default)]
pub struct DigestOptions {
    /// The shape of the Merkle tree.
    pub params: TreeParams,
    /// Who watches it.
    pub watcher: Watcher,
}

/// The format of a Merkle tree.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SealFormat {
    /// The kernel's format for files.
    FsVerity(TreeParams),
    /// The kernel's format for block devices.
    DmVerity(dm_verity::Params),
}

impl Default for SealFormat {
    fn default() -> Self {
        Self::FsVerity(TreeParams::default())
    }
}

/// A seal that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewSeal {
    /// What readers must know of the content.
    pub identity: Identity,
    /// The offset of the dm-verity superblock in its file, in bytes.
    pub hash_offset: Option<u64>,
    /// Whether the file also ends with a seal, which takes precedence over the one beside it.
    pub is_shadowed: bool,
    /// The size of the data in bytes, if sealing was interrupted before, and was completed now.
    pub resumed: Option<u64>,
}

/// Adds a Merkle tree to a file of any kind.
///
/// A file beside it gets its name when it is complete and on disk. A file that a tree is appended to
/// is unchanged, or marked as unfinished, if this is interrupted in any way; sealing it again with the
/// same options completes it.
///
/// ```
/// use verimount::{File, OpenOptions, SealOptions, seal};
///
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # std::fs::write("weights", [7; 10_000])?;
/// let sealed = seal("weights", &SealOptions::default())?;
/// println!("{}", sealed.identity);
/// let file = File::open("weights", &OpenOptions::new().unpinned())?;
/// assert_eq!(file.len(), 10_000);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WouldReplace`](crate::ErrorKind::WouldReplace), [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if the file ends
/// with a seal, [`WrongModel`](crate::ErrorKind::WrongModel) if it is not what is signed, [`Cancelled`](crate::ErrorKind::Cancelled), those of reading and writing.
pub fn seal(file: impl AsRef<Path>, options: &SealOptions) -> Result<NewSeal, Error> {
    let file = file.as_ref();
    let watch = &mut options.watcher.watch();
    if !options.append {
        beside(file, options, watch)
    } else if options.model_signature.is_some() {
        Err(Fault::SignedAppend.at(file))
    } else {
        append(file, options, watch)
    }
}

/// The fs-verity digest of any content.
///
/// ```
/// use verimount::{DigestOptions, Location, digest};
///
/// let source = Location::source("nothing", Vec::new());
/// let digest = digest(source, &DigestOptions::default())?;
/// assert_eq!(
///     digest.to_string(),
///     "sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95"
/// );
/// # Ok::<_, verimount::Error>(())
/// ```
///
/// # Errors
/// [`Cancelled`](crate::ErrorKind::Cancelled), and those of reading.
pub fn digest<L: TryInto<Location>>(
    location: L,
    options: &DigestOptions,
) -> Result<FileDigest, Error>
where
    Error: From<L::Error>,
{
    let location = location.try_into()?;
    let (source, _) = Place::new(location.clone(), &Options::default()).content()?;
    let mut watch = options.watcher.watch();
    let mut progress = step(&mut watch, Step::Hash, source.length());
    let params = &options.params;
    build_tree(
        &Unchecked(&*source),
        params,
        all_processors(),
        &mut (),
        &mut progress,
    )
    .map(|descriptor| descriptor.file_digest())
    .map_err(|error| ContentFault::seal(location, error))
}

fn beside(file: &Path, options: &SealOptions, watch: &mut Watch<'_>) -> Result<NewSeal, Error> {
    let source = Arc::new(open_file(file)?);
    let is_shadowed = match Sealed::open_appended(source.clone()) {
        Ok(_) => true,
        Err(error @ VerityError::Unfinished { .. }) => return Err(ContentFault::seal(file, error)),
        Err(_) => false,
    };
    let sidecar = sidecar_path(file);
    let io = |error| ContentFault::io(&sidecar, error);
    let output = OutputFile::replacing(&sidecar).map_err(io)?;
    if !options.replace {
        refuse_to_replace(&sidecar, source.clone())?;
    }
    let made = make(file, &source, output.file(), options, watch)?;
    output.commit().map_err(io)?;
    Ok(NewSeal {
        is_shadowed,
        ..made
    })
}

/// Refuses to replace a file that sealing could not recreate.
fn refuse_to_replace(sidecar: &Path, data: Arc<FileSource>) -> Result<(), Error> {
    if !sidecar.exists() {
        return Ok(());
    }
    let seal = Arc::new(open_file(sidecar)?);
    let is_hash_area = || {
        let area = HashArea::open_beside(data, seal.clone(), 0);
        !matches!(area, Err(VerityError::NoSuperblock))
    };
    let what = match is_signed(&*seal) {
        Ok(true) => "signed",
        Err(VerityError::NotSealed) if !is_hash_area() => "not a seal",
        _ => return Ok(()),
    };
    Err(Fault::WouldReplace(what).at(sidecar))
}

fn append(path: &Path, options: &SealOptions, watch: &mut Watch<'_>) -> Result<NewSeal, Error> {
    let file = open_to_change(path)?;
    let source = file.try_clone().and_then(FileSource::new);
    let source = Arc::new(source.map_err(|error| ContentFault::io(path, error))?);
    let resumed = match Sealed::open_appended(source.clone()) {
        Ok(_) => return Err(ContentFault::seal(path, VerityError::AlreadySealed)),
        Err(error @ VerityError::Source(_)) => return Err(ContentFault::seal(path, error)),
        Err(VerityError::Unfinished { data_size }) => Some(data_size),
        Err(_) => None,
    };
    let made = make(path, &source, &file, options, watch)?;
    Ok(NewSeal { resumed, ..made })
}

fn make(
    path: &Path,
    source: &FileSource,
    file: &File,
    options: &SealOptions,
    watch: &mut Watch<'_>,
) -> Result<NewSeal, Error> {
    let mut progress = step(watch, Step::Seal, source.length());
    match &options.model_signature {
        None => make_of(path, source, file, options, &mut progress),
        Some(signature) => seal_checked(
            path,
            source,
            signature,
            &mut progress,
            |source, progress| make_of(path, source, file, options, progress),
        ),
    }
}

fn make_of(
    path: &Path,
    source: &dyn ReadAt,
    file: &File,
    options: &SealOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<NewSeal, Error> {
    let (threads, beside) = (all_processors(), SealLayout::Sidecar);
    let made = match (&options.format, options.append) {
        (SealFormat::FsVerity(params), true) => {
            append_seal(source, file, params, threads, progress).map(NewSeal::fs_verity)
        }
        (SealFormat::FsVerity(params), false) => {
            write_seal(source, file, beside, params, threads, progress).map(NewSeal::fs_verity)
        }
        (SealFormat::DmVerity(params), true) => {
            dm_verity::append_seal(source, file, params, threads, progress).map(NewSeal::dm_verity)
        }
        (SealFormat::DmVerity(params), false) => {
            dm_verity::seal(source, file, beside, params, threads, progress).map(NewSeal::dm_verity)
        }
    };
    made.map_err(|error| ContentFault::seal(path, error))
}

impl NewSeal {
    fn new(identity: Identity, hash_offset: Option<u64>) -> Self {
        Self {
            identity,
            hash_offset,
            is_shadowed: false,
            resumed: None,
        }
    }

    fn fs_verity(descriptor: Descriptor) -> Self {
        Self::new(Identity::FileDigest(descriptor.file_digest()), None)
    }

    fn dm_verity(sealed: SealedDevice) -> Self {
        Self::new(Identity::RootHash(sealed.root), Some(sealed.hash_offset))
    }
}

/// Opens a regular file to change its end, and locks it against other processes that do the same.
pub(crate) fn open_to_change(path: &Path) -> Result<File, Error> {
    let open = || {
        // Without blocking on a named pipe, which is refused below.
        let file = FileOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(
                "a tree can be appended only to a regular file",
            ));
        }
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "it is in use by another process",
            )),
            Err(TryLockError::Error(error)) => Err(error),
        }
    };
    open().map_err(|error| ContentFault::io(path, error))
}
