use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use thiserror::Error;
use verimount_names::printable;
use verimount_source::ReadError;
use verimount_tree::InvalidAccessList;

use crate::Compression;

/// Why an archive cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Its bytes cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is compressed.
    #[error("it is compressed by {0}: decompress it first")]
    Compressed(Compression),
    /// It does not begin like an archive.
    #[error("it is not a tar archive")]
    NotAnArchive,
    /// A header is wrong, or of a kind that is not read.
    #[error("at byte {at}: {defect}")]
    Header {
        /// Where the header is.
        at: u64,
        /// What is wrong.
        defect: Defect,
    },
    /// A member is wrong, or of a kind that is not read.
    #[error("{}: {defect}", printable(OsStr::from_bytes(.name)))]
    Member {
        /// Its name.
        name: Box<[u8]>,
        /// What is wrong.
        defect: Defect,
    },
}

/// What is wrong with an archive.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Defect {
    /// The archive ends where it must go on: in a member, or without the block of zeros at its end.
    #[error("the archive is truncated")]
    Truncated,
    /// Something follows the end of the archive.
    #[error("there is data behind the archive's end")]
    BehindEnd,
    /// The header's checksum does not match.
    #[error("the header is damaged")]
    Checksum,
    /// A field of a header is not a number, or too large.
    #[error("the header's {0} is invalid")]
    Number(&'static str),
    /// An extended header is longer than the limit.
    #[error("its extended header is too long")]
    ExtensionLength,
    /// An extended header does not consist of records.
    #[error("its extended header is invalid")]
    Records,
    /// A record of an extended header has an invalid value.
    #[error("the value of {} in its extended header is invalid", printable(OsStr::from_bytes(.0)))]
    Record(Box<[u8]>),
    /// A record that says something about members is in a header for all.
    #[error("{} is given for all members", printable(OsStr::from_bytes(.0)))]
    Global(Box<[u8]>),
    /// Two headers of the same kind belong to one member.
    #[error("it has two extended headers of the same kind")]
    Repeated,
    /// Two extended headers, or two records, give its name or the target of its link.
    #[error("its extended headers give its name, or the target of its link, twice")]
    TwoNames,
    /// The member's type is not known.
    #[error("its type {} is not supported", printable(OsStr::from_bytes(std::slice::from_ref(.0))))]
    Type(u8),
    /// Its name is empty or contains NUL.
    #[error("its name is invalid")]
    Name,
    /// Some programs take other bytes of its header for a part of its name.
    #[error(
        "its header has other bytes where some programs read a part of its name, as in incremental backups (tar -g)"
    )]
    Prefix,
    /// A header for all members is between a member and a header for it.
    #[error("a header for all members is behind one for this member")]
    GlobalBehind,
    /// It has the record `SCHILY.realsize`.
    #[error(
        "the record SCHILY.realsize is not supported, as some programs read less content by it"
    )]
    RealSize,
    /// Its name ends with a slash, as only those of directories do.
    #[error("its name ends with a slash, but it is not a directory")]
    Slash,
    /// The target of its link is empty, too long or contains NUL.
    #[error("the target of its link is invalid")]
    Target,
    /// It has content, but is not a file.
    #[error("it has content, but is not a regular file")]
    Content,
    /// The map of its holes is invalid.
    #[error("the map of its holes is invalid")]
    Map,
    /// There are more holes than the limit.
    #[error(
        "with it, the archive has more than {} holes",
        crate::sparse::MAX_RANGES
    )]
    Holes,
    /// The name of an extended attribute is invalid.
    #[error("the name of an extended attribute is invalid")]
    AttributeName,
    /// An access control list is invalid.
    #[error("its access control list is invalid")]
    AccessList,
    /// An access control list has a user's or group's name in the place of a number.
    #[error(
        "its access control list names {} without a number: make the archive with --xattrs, too",
        printable(OsStr::from_bytes(.0))
    )]
    AccessListName(Box<[u8]>),
}

impl From<InvalidAccessList> for Defect {
    fn from(InvalidAccessList: InvalidAccessList) -> Self {
        Self::AccessList
    }
}

/// Why something failed, without the place.
#[derive(Debug, Error)]
#[error(transparent)]
pub(crate) enum Failure {
    Read(#[from] ReadError),
    Defect(#[from] Defect),
}

impl Failure {
    /// In the header that begins at this byte.
    pub(crate) fn at(self, at: u64) -> Error {
        match self {
            Self::Read(error) => error.into(),
            Self::Defect(defect) => Error::Header { at, defect },
        }
    }

    /// In the member with this name.
    pub(crate) fn of_member(self, name: &[u8]) -> Error {
        match self {
            Self::Read(error) => error.into(),
            Self::Defect(defect) => Error::Member {
                name: name.into(),
                defect,
            },
        }
    }
}
