use std::{
    io::{self, ErrorKind},
    path::PathBuf,
};

use rustix::io::Errno;
use thiserror::Error;
use verimount_names::printable;
use verimount_tree::MAX_DEPTH;

use crate::{archive, listing, scanning, source_tree, xattr_store};

/// Why a tree could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A part of the tree could not be read.
    #[error("{}: {source}", printable(path))]
    Unreadable {
        /// The path that could not be read.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file or directory is not what it was before.
    #[error("{}: changed while the image was being made", printable(path))]
    Changed {
        /// The file or directory.
        path: PathBuf,
    },
    /// An archive cannot be read.
    #[error("{}: {source}", printable(path))]
    Archive {
        /// The archive.
        path: PathBuf,
        /// The reason.
        source: verimount_tar::Error,
    },
    /// A member of an archive has no place in the tree.
    #[error("{}: {misfit}", printable(path))]
    Member {
        /// The path of the archive, and the member's in it.
        path: PathBuf,
        /// The reason.
        misfit: Misfit,
    },
    /// A symbolic link that is to be followed leads nowhere.
    #[error("{}: {reason}", printable(path))]
    Link {
        /// The link.
        path: PathBuf,
        /// The reason.
        reason: BadLink,
    },
    /// There is a file in the place of the one that is to be added.
    #[error(
        "{}: the image needs this name for a file that is added",
        printable(path)
    )]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// The tree exceeds a limit.
    #[error("{}: {limit}", printable(path))]
    TooLarge {
        /// Where it does.
        path: PathBuf,
        /// The limit.
        limit: Limit,
    },
    /// Cancelled by the progress callback.
    #[error("interrupted")]
    Cancelled,
}

/// Why a member of an archive has no place in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Misfit {
    /// Its path leads out of the tree.
    #[error("its path contains ..")]
    Outside,
    /// A name in its path has more than 255 bytes.
    #[error("a name in its path is longer than {} bytes", archive::MAX_NAME)]
    NameLength,
    /// It is below what is not a directory.
    #[error("it is below {}, which is not a directory", printable(.0))]
    NoDirectory(PathBuf),
    /// There is a directory in its place, which is not empty.
    #[error("there is a directory of this name, which is not empty")]
    Directory,
    /// The link's target does not precede it in the archive, or is a directory.
    #[error("it is a link to {}, which is not a file before it", printable(.0))]
    Target(PathBuf),
    /// The root of the tree is not a directory.
    #[error("it is in the place of the root, but not a directory")]
    Root,
}

/// Why a symbolic link cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadLink {
    /// Its target does not exist.
    #[error("the symbolic link leads to nothing")]
    Dangling,
    /// It leads to itself, or to a directory that it is in.
    #[error("the symbolic link leads in a circle")]
    Circle,
}

/// A limit of what is held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Limit {
    /// Directories are nested too deeply.
    #[error("it is nested more than {MAX_DEPTH} directories deep")]
    Depth,
    /// The tree has too many entries.
    #[error("with it, the tree has more than {} entries", source_tree::MAX_ENTRIES)]
    Entries,
    /// The directory has too many entries.
    #[error("it has more than {} entries", listing::MAX_ENTRIES)]
    DirectoryEntries,
    /// Too many symbolic links lead to directories.
    #[error(
        "with it, more than {} symbolic links lead to directories",
        scanning::MAX_LINKED_DIRECTORIES
    )]
    LinkedDirectories,
    /// The tree has too many different extended attributes.
    #[error(
        "with it, the tree has more than {} MiB of different extended attributes",
        xattr_store::MAX_BYTES >> 20
    )]
    Attributes,
}

impl Error {
    /// The error for an unreadable part of the tree. An entry that no longer exists, or is something
    /// else, has changed.
    pub(crate) fn unreadable(path: PathBuf, source: io::Error) -> Self {
        let is_other = matches!(
            Errno::from_io_error(&source),
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO)
        );
        match source.kind() {
            ErrorKind::NotFound | ErrorKind::UnexpectedEof => Self::Changed { path },
            _ if is_other => Self::Changed { path },
            _ => Self::Unreadable { path, source },
        }
    }
}
