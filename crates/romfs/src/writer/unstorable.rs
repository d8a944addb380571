use thiserror::Error;

use crate::{index, name::MAX_NAME_LEN, reader};

/// Why the format cannot represent a part of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unstorable {
    /// The name is too long.
    #[error("its name of {0} bytes is longer than romfs's limit of {max}", max = MAX_NAME_LEN)]
    NameTooLong(usize),
    /// The file is too large.
    #[error("its {0} bytes exceed romfs's limit of 4 GiB for a file")]
    FileTooLarge(u64),
    /// With this entry, the image becomes too large.
    #[error("it would make the image exceed romfs's limit of 4 GiB")]
    ImageTooLarge,
    /// The target of the symbolic link is too long or empty.
    #[error("its target of {0} bytes has an invalid length for a symbolic link in romfs")]
    TargetLen(usize),
    /// The device number is too large.
    #[error("its device number {major}:{minor} exceeds romfs's limit of 65535:65535")]
    DeviceNumber {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// Its type does not exist in romfs.
    #[error("its type does not exist in romfs")]
    Type,
    /// The directory has too many entries.
    #[error("it has more than {} entries", reader::MAX_DIRECTORY_ENTRIES)]
    DirectoryEntries,
    /// The tree has too many directories.
    #[error("it would make the tree exceed {} directories", index::MAX_DIRECTORIES)]
    Directories,
}
