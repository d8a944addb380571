use thiserror::Error;
use verimount_source::ReadError;
use verimount_tree::Error as TreeError;

use crate::{NodeId, index, name, reader, walk};

/// Why an image could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The image's bytes could not be read.
    #[error(transparent)]
    Source(#[from] ReadError),
    /// The source does not begin with the magic number of romfs.
    #[error("not a romfs image")]
    NotRomfs,
    /// The image's end is missing.
    #[error("truncated romfs image: {available} bytes instead of at least {size}")]
    Truncated {
        /// The size according to the superblock, in bytes. Padding, index and seal follow.
        size: u32,
        /// The available bytes.
        available: u64,
    },
    /// The image contradicts the format or itself.
    #[error("corrupt romfs image: {0}")]
    Corrupt(#[from] Corruption),
    /// The image exceeds a limit of this reader.
    #[error("unsupported romfs image: {0}")]
    Unsupported(Limit),
    /// A walk over the image cannot go on.
    #[error(transparent)]
    Walk(#[from] TreeError),
    /// Entries were requested of a node that is not a directory.
    #[error("the romfs header at byte {} is not a directory's", .0.get())]
    NotADirectory(NodeId),
    /// A target was requested of a node that is not a symbolic link.
    #[error("the romfs header at byte {} is not a symbolic link's", .0.get())]
    NotASymlink(NodeId),
}

impl From<Error> for TreeError {
    fn from(error: Error) -> Self {
        match error {
            Error::Source(error) => Self::Read(error),
            Error::Walk(error) => error,
            Error::NotADirectory(_) => Self::NotADirectory,
            Error::NotASymlink(_) => Self::NotASymlink,
            Error::Unsupported(_) => Self::unsupported(error),
            _ => Self::corrupt(error),
        }
    }
}

/// A place in an image where it contradicts the format or itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("byte {at}: {defect}")]
pub struct Corruption {
    at: u64,
    defect: Defect,
}

impl Corruption {
    /// The offset of the wrong structure in the image.
    pub fn at(&self) -> u64 {
        self.at
    }
}

/// What is wrong with a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Defect {
    #[error("the superblock's checksum does not match")]
    SuperblockChecksum,
    #[error(
        "the volume name is unterminated or longer than {} bytes",
        name::MAX_LEN
    )]
    VolumeName,
    #[error("the root is not a directory")]
    Root,
    #[error("a header is outside the image")]
    HeaderRange,
    #[error("the header's checksum does not match")]
    HeaderChecksum,
    #[error("an offset is not a multiple of 16")]
    Alignment,
    #[error("a name is unterminated or longer than {} bytes", name::MAX_LEN)]
    NameLen,
    #[error("a name is empty")]
    EmptyName,
    #[error("a name contains a slash or NUL")]
    NameCharacter,
    #[error("an entry named . or .. is neither a directory nor a hard link")]
    Dot,
    #[error("a hard link in place of a file or directory")]
    HardLink,
    #[error("a hard link points to a directory")]
    LinkToDirectory,
    #[error("the data is outside the image")]
    DataRange,
    #[error("a symbolic link's target has an invalid length of {0} bytes")]
    TargetLen(u32),
    #[error("a symbolic link's target contains a NUL")]
    TargetCharacter,
    #[error("a directory's chain of headers contains a loop")]
    ChainLoop,
    #[error("a directory has two entries with the same name")]
    RepeatedName,
    #[error("the index's counts or reserved bytes are invalid")]
    IndexHeader,
    #[error("the index's directory records are not in order")]
    IndexDirectories,
    #[error("an index record is invalid")]
    IndexEntry,
    #[error("the directory is not in the index")]
    NotIndexed,
    #[error("the index and the directory's headers disagree")]
    IndexDisagrees,
    #[error("the index has {indexed} directories, of which {reached} can be reached")]
    IndexUnreached { indexed: u32, reached: usize },
}

impl Defect {
    /// This defect in the structure at byte `at` of the image.
    pub(crate) fn at(self, at: impl Into<u64>) -> Corruption {
        let at = at.into();
        Corruption { at, defect: self }
    }
}

/// A limit of the reader, so that no image can consume unbounded memory or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Limit {
    /// A directory has too many entries.
    #[error("a directory has more than {} entries", reader::MAX_DIRECTORY_ENTRIES)]
    DirectoryEntries,
    /// The header index has too many directories.
    #[error("the index has more than {} directories", index::MAX_DIRECTORIES)]
    Directories,
    /// The directories on one path have too many entries together.
    #[error(
        "more than {} entries in the directories on one path",
        walk::MAX_HELD_ENTRIES
    )]
    HeldEntries,
}
