use std::io;

use rustix::io::Errno;
use verimount_erofs::BuildError as ErofsError;
use verimount_integrity::{Error as VolumeError, Usage};
use verimount_models::Error as ModelError;
use verimount_mount::MountError;
use verimount_romfs::Error as RomfsError;
use verimount_scan::{ArchiveError, Error as ScanError};
use verimount_serve::ResidentError;
use verimount_source::{ReadError, WriteError};
use verimount_tree::Error as TreeError;
use verimount_verity::Error as VerityError;

use crate::{
    Error, far, fault::Fault, image_archive::ImageArchiveError, layers_error::LayersError,
};

/// What an error means for whoever has to do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such file or directory: on this machine, on the server, or in the image.
    NotFound,
    /// The system or the server does not allow it.
    PermissionDenied,
    /// There is something already where something new is to be made.
    AlreadyExists,
    /// Another process has it.
    Busy,
    /// Nothing says which content is accepted: give a digest, a root hash or a key.
    NotTrusted,
    /// The image is pinned, but nothing says which content of its further device is accepted: give the digest of that.
    DeviceNotTrusted,
    /// The seal is one of dm-verity, for which a root hash is needed.
    NeedsRootHash,
    /// The content is not the one that is accepted: its digest, root hash, signature or number of blocks is another.
    WrongContent,
    /// A model does not have the files that are signed, or the signature is of another key. Or a blob of Hugging Face does not
    /// have the digest that it is named by.
    WrongModel,
    /// The content has no seal to verify it with.
    NotSealed,
    /// A root hash is given, and there is no hash area where one is looked for.
    NoHashArea,
    /// Bytes do not match their digests, as [`Error::mismatch`] may tell; or the data contradicts its format or itself.
    Corrupt,
    /// Not all bytes of a file that was to be copied match its seal. [`Content::verify`](crate::Content::verify) tells which.
    Damaged,
    /// The data is of another format than is needed here: not an image, not a seal, not a volume.
    WrongFormat,
    /// An archive has several container images in it, or not all of one.
    NotOneImage,
    /// The data or the request may be valid, but exceeds what is supported.
    Unsupported,
    /// A file would be replaced that may be valuable, and that was not allowed.
    WouldReplace,
    /// Everybody could read what only some may read now, and that was not allowed.
    WouldWiden,
    /// An image would not keep what it must keep.
    WouldLose,
    /// More would be written than is allowed.
    TooLarge,
    /// A file is to be made, and nothing says how large.
    NoSize,
    /// The request contradicts itself, or what is there.
    InvalidInput,
    /// A server cannot be reached, does not answer, or answers nonsense.
    Network,
    /// The caller has ended it.
    Cancelled,
    /// The system failed it for another reason, such as a full disk.
    Io,
}

impl ErrorKind {
    /// Whether the data is not what it should be: damaged, forged, not the version or not of the format required. Trying
    /// again does not help; other data does.
    pub fn is_about_data(self) -> bool {
        matches!(
            self,
            Self::WrongContent
                | Self::WrongModel
                | Self::NotSealed
                | Self::Corrupt
                | Self::Damaged
                | Self::WrongFormat
        )
    }

    /// The number of the system's error that comes closest.
    pub(crate) fn errno(self) -> Errno {
        match self {
            Self::NotFound | Self::NoHashArea => Errno::NOENT,
            Self::PermissionDenied => Errno::ACCESS,
            Self::AlreadyExists | Self::WouldReplace => Errno::EXIST,
            Self::Busy => Errno::BUSY,
            Self::NotTrusted | Self::DeviceNotTrusted | Self::NeedsRootHash => Errno::NOKEY,
            Self::WrongContent | Self::WrongModel => Errno::KEYREJECTED,
            // As the kernel measures a file without a tree.
            Self::NotSealed => Errno::NODATA,
            Self::Corrupt | Self::Damaged | Self::Network | Self::Io => Errno::IO,
            Self::WrongFormat | Self::NotOneImage | Self::NoSize | Self::InvalidInput => {
                Errno::INVAL
            }
            Self::Unsupported => Errno::OPNOTSUPP,
            Self::WouldWiden | Self::WouldLose => Errno::PERM,
            Self::TooLarge => Errno::FBIG,
            Self::Cancelled => Errno::CANCELED,
        }
    }

    pub(crate) fn of(fault: &Fault) -> Self {
        match fault {
            Fault::Io(error) => of_io(error),
            Fault::Read(error) => of_read(error),
            Fault::Seal(error) => error.into(),
            Fault::Image(error) => of_tree(error),
            Fault::Volume(error) => error.into(),
            Fault::Mount(error) => of_mount(error),
            Fault::ResidentMemory(error) => of_resident(error),
            Fault::Scan(error)
            | Fault::BuildRomfs(RomfsError::Scan(error))
            | Fault::BuildErofs(ErofsError::Scan(error)) => of_scan(error),
            Fault::Layers(LayersError::ManyLayers(_)) => Self::Unsupported,
            Fault::Layers(_) => Self::Corrupt,
            Fault::NotNamed | Fault::Unverified => Self::NotTrusted,
            Fault::UnpinnedDevice => Self::DeviceNotTrusted,
            Fault::IsHashArea => Self::NeedsRootHash,
            Fault::WrongSuperblock | Fault::NamedOtherwise { .. } | Fault::DataBlocks { .. } => {
                Self::WrongContent
            }
            Fault::ModelSignature(error) => of_model(error),
            Fault::Uncovered(_) | Fault::Differs(_) | Fault::NotABlob | Fault::NoModelSignature => {
                Self::WrongModel
            }
            Fault::NotSealed { .. } => Self::NotSealed,
            Fault::TruncatedVolume { .. } | Fault::SizeChanged { .. } => Self::Corrupt,
            Fault::Damaged => Self::Damaged,
            Fault::Unrecognised
            | Fault::NotAnImage
            | Fault::NotASeal
            | Fault::NotALayerNote(_)
            | Fault::NotText => Self::WrongFormat,
            Fault::NoHashArea => Self::NoHashArea,
            Fault::NoDataSize => Self::NoSize,
            Fault::ImageArchive(ImageArchiveError::WrongDigest { .. }) => Self::Corrupt,
            Fault::ImageArchive(ImageArchiveError::UnknownDigest(_)) => Self::Unsupported,
            Fault::ImageArchive(_) => Self::NotOneImage,
            Fault::Cancelled => Self::Cancelled,
            Fault::WouldReplace(_) => Self::WouldReplace,
            Fault::WouldWiden(_) => Self::WouldWiden,
            Fault::WouldLose { .. } => Self::WouldLose,
            Fault::TooLarge { .. } => Self::TooLarge,
            Fault::BuildRomfs(_) | Fault::BuildErofs(_) => Self::Unsupported,
            Fault::NoSidecarName
            | Fault::NotEmpty
            | Fault::InsideTree
            | Fault::CannotExtend
            | Fault::CannotShrink { .. }
            | Fault::PinsOfTwoSeals
            | Fault::PinnedAndNot
            | Fault::PermissionsStored
            | Fault::ResidentPattern(_)
            | Fault::NothingResident
            | Fault::NoCache
            | Fault::WrongPlace(_)
            | Fault::SignedFile
            | Fault::SignedDirectory
            | Fault::SignedAppend
            | Fault::NotADirectory(_)
            | Fault::TooManyMirrors { .. }
            | Fault::Location(_) => Self::InvalidInput,
        }
    }
}

impl From<&VerityError> for ErrorKind {
    fn from(error: &VerityError) -> Self {
        match error {
            VerityError::Source(error) => of_read(error),
            VerityError::Write(error) => of_io(error),
            VerityError::Cancelled => Self::Cancelled,
            VerityError::NotSealed | VerityError::NoSuperblock => Self::NotSealed,
            VerityError::Unfinished { .. } | VerityError::Corrupt(_) => Self::Corrupt,
            VerityError::WrongDigest { .. }
            | VerityError::WrongRootHash { .. }
            | VerityError::NotSigned
            | VerityError::WrongSignature(_) => Self::WrongContent,
            VerityError::AlreadySealed => Self::AlreadyExists,
            VerityError::Unsupported(_) | VerityError::TooLarge(_) => Self::Unsupported,
            _ => Self::InvalidInput,
        }
    }
}

impl From<&VolumeError> for ErrorKind {
    fn from(error: &VolumeError) -> Self {
        match error {
            VolumeError::Source(error) => of_read(error),
            VolumeError::Write(WriteError::Io { source, .. } | WriteError::Flush(source)) => {
                of_io(source)
            }
            VolumeError::Latched(first) => first.as_ref().into(),
            VolumeError::Cancelled => Self::Cancelled,
            VolumeError::NotIntegrity => Self::WrongFormat,
            VolumeError::Corrupt(_)
            | VolumeError::TooSmall { .. }
            | VolumeError::Mismatch { .. } => Self::Corrupt,
            VolumeError::Usage(Usage::NothingMatches) => Self::WrongContent,
            VolumeError::Unsupported(_) => Self::Unsupported,
            VolumeError::Usage(_) | VolumeError::Param(_) => Self::InvalidInput,
            _ => Self::Io,
        }
    }
}

fn of_tree(error: &TreeError) -> ErrorKind {
    match error {
        TreeError::NotFound => ErrorKind::NotFound,
        TreeError::Corrupt(_) => ErrorKind::Corrupt,
        TreeError::Unsupported(_) => ErrorKind::Unsupported,
        TreeError::Read(error) => of_read(error),
        _ => ErrorKind::InvalidInput,
    }
}

fn of_mount(error: &MountError) -> ErrorKind {
    match error {
        MountError::MountPoint { reason, .. }
        | MountError::Refused { reason, .. }
        | MountError::Awake(reason) => of_io(reason),
        MountError::AlreadyMounted(_) => ErrorKind::Busy,
        MountError::NotRoot => ErrorKind::PermissionDenied,
        MountError::NotADirectory(_) | MountError::NotEmpty(_) => ErrorKind::InvalidInput,
        _ => ErrorKind::Io,
    }
}

fn of_resident(error: &ResidentError) -> ErrorKind {
    match error {
        ResidentError::NotPermitted(_) => ErrorKind::PermissionDenied,
        ResidentError::Refused(reason) => of_io(reason),
        _ => ErrorKind::InvalidInput,
    }
}

fn of_scan(error: &ScanError) -> ErrorKind {
    match error {
        ScanError::Unreadable { source, .. } => of_io(source),
        ScanError::Archive {
            source: ArchiveError::Read(error),
            ..
        } => of_read(error),
        ScanError::Archive { .. } | ScanError::Member { .. } => ErrorKind::Corrupt,
        ScanError::Link { .. } | ScanError::Taken { .. } => ErrorKind::InvalidInput,
        ScanError::Cancelled => ErrorKind::Cancelled,
        _ => ErrorKind::Unsupported,
    }
}

fn of_model(error: &ModelError) -> ErrorKind {
    match error {
        ModelError::WrongKey => ErrorKind::WrongModel,
        ModelError::NotABundle(_) => ErrorKind::WrongFormat,
        ModelError::Inconsistent(_) => ErrorKind::Corrupt,
        ModelError::Unsupported(_) => ErrorKind::Unsupported,
        _ => ErrorKind::InvalidInput,
    }
}

fn of_read(error: &ReadError) -> ErrorKind {
    match error {
        ReadError::Io { source, .. } => match of_io(source) {
            // Content that was opened exists: nobody may take this for a missing file.
            ErrorKind::NotFound => ErrorKind::Io,
            kind => kind,
        },
        _ => ErrorKind::Corrupt,
    }
}

fn of_io(error: &io::Error) -> ErrorKind {
    let inner = error.get_ref();
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<Error>()) {
        return error.kind();
    }
    if let Some(kind) = inner.and_then(far::kind_of) {
        return kind;
    }
    match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        io::ErrorKind::ResourceBusy => ErrorKind::Busy,
        io::ErrorKind::InvalidInput => ErrorKind::InvalidInput,
        io::ErrorKind::Unsupported => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_found_below_what_failed() {
        let at = || "x".as_ref() as &std::path::Path;
        let io = |source| ReadError::Io {
            offset: 0,
            len: 1,
            source,
        };
        let rejected = || ReadError::Rejected("no match".into());
        let failed = || io::Error::other("failed");
        let full = || WriteError::Flush(Errno::NOSPC.into());
        let latched = |first: VolumeError| VolumeError::Latched(first.into());
        for (error, kind, errno) in [
            (Error::io(at(), failed()), ErrorKind::Io, Errno::IO),
            (
                Error::io(at(), Errno::NOSPC.into()),
                ErrorKind::Io,
                Errno::NOSPC,
            ),
            (
                Error::image(at(), io(Errno::NOMEM.into()).into()),
                ErrorKind::Io,
                Errno::NOMEM,
            ),
            (
                Error::image(at(), io(io::ErrorKind::NotFound.into()).into()),
                ErrorKind::Io,
                Errno::IO,
            ),
            (
                Error::image(at(), io(Errno::NOENT.into()).into()),
                ErrorKind::Io,
                Errno::IO,
            ),
            (
                Error::image(at(), rejected().into()),
                ErrorKind::Corrupt,
                Errno::IO,
            ),
            (
                Error::image(at(), TreeError::NotADirectory),
                ErrorKind::InvalidInput,
                Errno::NOTDIR,
            ),
            (
                Error::image(at(), TreeError::unsupported("new")),
                ErrorKind::Unsupported,
                Errno::OPNOTSUPP,
            ),
            (
                Error::seal(at(), VerityError::Cancelled),
                ErrorKind::Cancelled,
                Errno::CANCELED,
            ),
            (
                Error::volume(at(), latched(full().into())),
                ErrorKind::Io,
                Errno::IO,
            ),
            (
                Error::volume(at(), latched(VolumeError::NotIntegrity)),
                ErrorKind::WrongFormat,
                Errno::INVAL,
            ),
            (
                Error::build_erofs(
                    at(),
                    ErofsError::Scan(ScanError::Archive {
                        path: "x".into(),
                        source: ArchiveError::Read(rejected()),
                    }),
                ),
                ErrorKind::Corrupt,
                Errno::IO,
            ),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
            // An error inside another one, as where content is opened while it is read.
            let wrapped = Error::io(at(), io::Error::other(error));
            assert_eq!(wrapped.kind(), kind, "{wrapped}");
        }
    }
}
