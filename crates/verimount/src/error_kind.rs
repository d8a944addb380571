//! What errors mean of what is done with content.

use verimount_erofs::BuildError as ErofsError;
use verimount_models::Error as ModelError;
use verimount_romfs::Error as RomfsError;
use verimount_scan::{ArchiveError, Error as ScanError};

use crate::{ErrorKind, fault::Fault, image_archive::ImageArchiveError};

pub(crate) fn of(fault: &Fault) -> ErrorKind {
    match fault {
        Fault::Content(fault) => fault.kind(),
        Fault::Scan(error)
        | Fault::BuildRomfs(RomfsError::Scan(error))
        | Fault::BuildErofs(ErofsError::Scan(error)) => of_scan(error),
        Fault::UnpinnedDevice => ErrorKind::DeviceNotTrusted,
        Fault::ModelSignature(error) => of_model(error),
        Fault::Uncovered(_) | Fault::Differs(_) | Fault::NotABlob | Fault::NoModelSignature => {
            ErrorKind::WrongModel
        }
        Fault::Damaged => ErrorKind::Damaged,
        Fault::Unrecognised | Fault::NotAnImage | Fault::NotText => ErrorKind::WrongFormat,
        Fault::ImageArchive(ImageArchiveError::WrongDigest { .. }) => ErrorKind::Corrupt,
        Fault::ImageArchive(ImageArchiveError::UnknownDigest(_)) => ErrorKind::Unsupported,
        Fault::ImageArchive(_) => ErrorKind::NotOneImage,
        Fault::WouldReplace(_) => ErrorKind::WouldReplace,
        Fault::WouldWiden(_) => ErrorKind::WouldWiden,
        Fault::WouldLose { .. } => ErrorKind::WouldLose,
        Fault::TooLarge { .. } => ErrorKind::TooLarge,
        Fault::BuildRomfs(_) | Fault::BuildErofs(_) => ErrorKind::Unsupported,
        Fault::NoSidecarName
        | Fault::NotEmpty
        | Fault::InsideTree
        | Fault::NoCache
        | Fault::WrongPlace(_)
        | Fault::SignedFile
        | Fault::SignedDirectory
        | Fault::SignedAppend
        | Fault::NotADirectory(_) => ErrorKind::InvalidInput,
    }
}

fn of_scan(error: &ScanError) -> ErrorKind {
    match error {
        ScanError::Unreadable { source, .. } => source.into(),
        ScanError::Archive {
            source: ArchiveError::Read(error),
            ..
        } => error.into(),
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

#[cfg(test)]
mod tests {
    use std::{io, path::Path};

    use rustix::io::Errno;
    use verimount_source::ReadError;

    use super::*;
    use crate::fault::ContentFault;

    #[test]
    fn what_is_wrong_is_found_below_what_failed() {
        let rejected = ReadError::Rejected("no match".into());
        let scan = ScanError::Archive {
            path: "x".into(),
            source: ArchiveError::Read(rejected),
        };
        let at: &Path = "x".as_ref();
        let error = Fault::build_erofs(at, ErofsError::Scan(scan));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.errno(), Errno::IO.raw_os_error(), "{error}");
        let wrapped = ContentFault::io(at, io::Error::other(error));
        assert_eq!(wrapped.kind(), ErrorKind::Corrupt, "{wrapped}");
    }
}
