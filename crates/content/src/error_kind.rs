use std::io;

use rustix::io::Errno;
use verimount_source::ReadError;
use verimount_tree::Error as TreeError;
use verimount_verity::Error as VerityError;

use crate::{Error, far, fault::Fault, layers_error::LayersError};

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
    /// Not all bytes of a file that was to be copied match its seal. Verifying all of it tells which.
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
}

impl Fault {
    /// What it means.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io(error) => error.into(),
            Self::Read(error) => error.into(),
            Self::Seal(error) => error.into(),
            Self::Image(error) => of_tree(error),
            Self::Layers(LayersError::ManyLayers(_)) => ErrorKind::Unsupported,
            Self::Layers(_) | Self::SizeChanged { .. } => ErrorKind::Corrupt,
            Self::NotNamed | Self::Unverified => ErrorKind::NotTrusted,
            Self::IsHashArea => ErrorKind::NeedsRootHash,
            Self::WrongSuperblock | Self::NamedOtherwise { .. } | Self::DataBlocks { .. } => {
                ErrorKind::WrongContent
            }
            Self::NotSealed { .. } => ErrorKind::NotSealed,
            Self::NotASeal | Self::NotALayerNote(_) => ErrorKind::WrongFormat,
            Self::NoHashArea => ErrorKind::NoHashArea,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::PinsOfTwoSeals
            | Self::PinnedAndNot
            | Self::TooManyMirrors { .. }
            | Self::Location(_) => ErrorKind::InvalidInput,
            Self::Other(fault) => fault.kind(),
        }
    }
}

impl From<&VerityError> for ErrorKind {
    fn from(error: &VerityError) -> Self {
        match error {
            VerityError::Source(error) => error.into(),
            VerityError::Write(error) => error.into(),
            VerityError::Cancelled => Self::Cancelled,
            VerityError::NotSealed => Self::NotSealed,
            VerityError::NoSuperblock => Self::NoHashArea,
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

fn of_tree(error: &TreeError) -> ErrorKind {
    match error {
        TreeError::NotFound => ErrorKind::NotFound,
        TreeError::Corrupt(_) => ErrorKind::Corrupt,
        TreeError::Unsupported(_) => ErrorKind::Unsupported,
        TreeError::Read(error) => error.into(),
        _ => ErrorKind::InvalidInput,
    }
}

impl From<&ReadError> for ErrorKind {
    fn from(error: &ReadError) -> Self {
        match error {
            ReadError::Io { source, .. } => match source.into() {
                // Content that was opened exists: nobody may take this for a missing file.
                Self::NotFound => Self::Io,
                kind => kind,
            },
            _ => Self::Corrupt,
        }
    }
}

impl From<&io::Error> for ErrorKind {
    fn from(error: &io::Error) -> Self {
        let inner = error.get_ref();
        if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<Error>()) {
            return error.kind();
        }
        if let Some(kind) = inner.and_then(far::kind_of) {
            return kind;
        }
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            io::ErrorKind::AlreadyExists => Self::AlreadyExists,
            io::ErrorKind::ResourceBusy => Self::Busy,
            io::ErrorKind::InvalidInput => Self::InvalidInput,
            io::ErrorKind::Unsupported => Self::Unsupported,
            _ => Self::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use verimount_verity::{Corruption, FileDigest};

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
        for (error, kind, errno) in [
            (Fault::io(at(), failed()), ErrorKind::Io, Errno::IO),
            (
                Fault::io(at(), Errno::NOSPC.into()),
                ErrorKind::Io,
                Errno::NOSPC,
            ),
            (
                Fault::image(at(), io(Errno::NOMEM.into()).into()),
                ErrorKind::Io,
                Errno::NOMEM,
            ),
            (
                Fault::image(at(), io(io::ErrorKind::NotFound.into()).into()),
                ErrorKind::Io,
                Errno::IO,
            ),
            (
                Fault::image(at(), io(Errno::NOENT.into()).into()),
                ErrorKind::Io,
                Errno::IO,
            ),
            (
                Fault::image(at(), rejected().into()),
                ErrorKind::Corrupt,
                Errno::IO,
            ),
            (
                Fault::image(at(), TreeError::NotADirectory),
                ErrorKind::InvalidInput,
                Errno::NOTDIR,
            ),
            (
                Fault::image(at(), TreeError::unsupported("new")),
                ErrorKind::Unsupported,
                Errno::OPNOTSUPP,
            ),
            (
                Fault::seal(at(), VerityError::Cancelled),
                ErrorKind::Cancelled,
                Errno::CANCELED,
            ),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
            // An error inside another one, as where content is opened while it is read.
            let wrapped = Fault::io(at(), io::Error::other(error));
            assert_eq!(wrapped.kind(), kind, "{wrapped}");
        }
    }

    /// Whose data is damaged mends it; whose data is another one looks for the right one, or is attacked.
    #[test]
    fn damage_is_told_from_other_content() {
        let at = || "x".as_ref() as &std::path::Path;
        let digest =
            |digit: &str| -> FileDigest { format!("sha256:{}", digit.repeat(64)).parse().unwrap() };
        let (expected, actual) = (digest("1"), digest("2"));
        let [file, topmost] = [
            VerityError::WrongDigest {
                expected: expected.into(),
                actual: actual.into(),
            },
            VerityError::WrongRootHash {
                expected: (*expected.digest()).into(),
                actual: (*actual.digest()).into(),
            },
        ];
        let (expected, actual) = (5, 6);
        for (error, kind) in [
            (Fault::seal(at(), file), ErrorKind::WrongContent),
            (Fault::seal(at(), topmost), ErrorKind::WrongContent),
            (
                Fault::seal(at(), VerityError::NotSigned),
                ErrorKind::WrongContent,
            ),
            (
                Fault::DataBlocks { expected, actual }.at(at()),
                ErrorKind::WrongContent,
            ),
            (Fault::WrongSuperblock.at(at()), ErrorKind::WrongContent),
            (
                Fault::seal(at(), Corruption::Signature.into()),
                ErrorKind::Corrupt,
            ),
            (
                Fault::SizeChanged {
                    sidecar: at().into(),
                    expected,
                    actual,
                }
                .at(at()),
                ErrorKind::Corrupt,
            ),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
