//! What errors mean of what is done with content.

use verimount_erofs::BuildError as ErofsError;
use verimount_integrity::{Error as VolumeError, Usage};
use verimount_models::Error as ModelError;
use verimount_mount::MountError;
use verimount_romfs::Error as RomfsError;
use verimount_scan::{ArchiveError, Error as ScanError};
use verimount_serve::ResidentError;
use verimount_source::WriteError;

use crate::{ErrorKind, fault::Fault, image_archive::ImageArchiveError};

pub(crate) fn of(fault: &Fault) -> ErrorKind {
    match fault {
        Fault::Content(fault) => fault.kind(),
        Fault::Volume(error) => of_volume(error),
        Fault::Mount(error) => of_mount(error),
        Fault::ResidentMemory(error) => of_resident(error),
        Fault::Scan(error)
        | Fault::BuildRomfs(RomfsError::Scan(error))
        | Fault::BuildErofs(ErofsError::Scan(error)) => of_scan(error),
        Fault::UnpinnedDevice => ErrorKind::DeviceNotTrusted,
        Fault::ModelSignature(error) => of_model(error),
        Fault::Uncovered(_) | Fault::Differs(_) | Fault::NotABlob | Fault::NoModelSignature => {
            ErrorKind::WrongModel
        }
        Fault::TruncatedVolume { .. } => ErrorKind::Corrupt,
        Fault::Damaged => ErrorKind::Damaged,
        Fault::Unrecognised | Fault::NotAnImage | Fault::NotText => ErrorKind::WrongFormat,
        Fault::NoDataSize => ErrorKind::NoSize,
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
        | Fault::CannotExtend
        | Fault::CannotShrink { .. }
        | Fault::PermissionsStored
        | Fault::ResidentPattern(_)
        | Fault::NothingResident
        | Fault::NoCache
        | Fault::WrongPlace(_)
        | Fault::SignedFile
        | Fault::SignedDirectory
        | Fault::SignedAppend
        | Fault::NotADirectory(_) => ErrorKind::InvalidInput,
    }
}

/// What an error of a volume means.
pub fn of_volume(error: &VolumeError) -> ErrorKind {
    match error {
        VolumeError::Source(error) => error.into(),
        VolumeError::Write(WriteError::Io { source, .. } | WriteError::Flush(source)) => {
            source.into()
        }
        VolumeError::Latched(first) => of_volume(first),
        VolumeError::Cancelled => ErrorKind::Cancelled,
        VolumeError::NotIntegrity => ErrorKind::WrongFormat,
        VolumeError::Corrupt(_) | VolumeError::TooSmall { .. } | VolumeError::Mismatch { .. } => {
            ErrorKind::Corrupt
        }
        VolumeError::Usage(Usage::NothingMatches) => ErrorKind::WrongContent,
        VolumeError::Unsupported(_) => ErrorKind::Unsupported,
        VolumeError::Usage(_) | VolumeError::Param(_) => ErrorKind::InvalidInput,
        _ => ErrorKind::Io,
    }
}

fn of_mount(error: &MountError) -> ErrorKind {
    match error {
        MountError::MountPoint { reason, .. }
        | MountError::Refused { reason, .. }
        | MountError::Awake(reason) => reason.into(),
        MountError::AlreadyMounted(_) => ErrorKind::Busy,
        MountError::NotRoot => ErrorKind::PermissionDenied,
        MountError::NotADirectory(_) | MountError::NotEmpty(_) => ErrorKind::InvalidInput,
        _ => ErrorKind::Io,
    }
}

fn of_resident(error: &ResidentError) -> ErrorKind {
    match error {
        ResidentError::NotPermitted(_) => ErrorKind::PermissionDenied,
        ResidentError::Refused(reason) => reason.into(),
        _ => ErrorKind::InvalidInput,
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
    use std::io;

    use rustix::io::Errno;
    use verimount_source::ReadError;

    use super::*;
    use crate::fault::ContentFault;

    #[test]
    fn what_is_wrong_is_found_below_what_failed() {
        let at = || "x".as_ref() as &std::path::Path;
        let full = || WriteError::Flush(Errno::NOSPC.into());
        let latched = |first: VolumeError| VolumeError::Latched(first.into());
        let rejected = || ReadError::Rejected("no match".into());
        for (error, kind, errno) in [
            (
                Fault::volume(at(), latched(full().into())),
                ErrorKind::Io,
                Errno::IO,
            ),
            (
                Fault::volume(at(), latched(VolumeError::NotIntegrity)),
                ErrorKind::WrongFormat,
                Errno::INVAL,
            ),
            (
                Fault::build_erofs(
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
            let wrapped = ContentFault::io(at(), io::Error::other(error));
            assert_eq!(wrapped.kind(), kind, "{wrapped}");
        }
    }
}
