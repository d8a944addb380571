use thiserror::Error;
use verimount_names::one_line;
use verimount_tree::MAX_XATTR_LIST;

use super::{chunk_map::MAX_WASTE, layout::MAX_BLOCKS};
use crate::{directory_block::MAX_NAME, xattrs::MAX_OWN};

/// Why the format cannot represent a part of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unstorable {
    /// The name is too long.
    #[error("its name of {0} bytes is longer than EROFS's limit of {MAX_NAME}")]
    NameTooLong(
        /// Its length in bytes.
        usize,
    ),
    /// An extended attribute is in a namespace that the format does not have.
    #[error(
        "EROFS has no extended attributes like {}; a build with only those of users leaves it out",
        one_line(.0)
    )]
    AttributeNamespace(
        /// The attribute's name; untrusted text.
        String,
    ),
    /// The value of an extended attribute is too long.
    #[error("its extended attribute {} is longer than EROFS's limit of 65535 bytes", one_line(.0))]
    AttributeTooLong(
        /// The attribute's name; untrusted text.
        String,
    ),
    /// The extended attributes of the inode are too long together.
    #[error("its extended attributes exceed EROFS's limit of 256 KiB for each file")]
    Attributes,
    /// The inode has too many extended attributes.
    #[error("it has more than {MAX_OWN} extended attributes")]
    AttributeCount,
    /// The names of the inode's extended attributes are too long together.
    #[error(
        "the names of its extended attributes exceed Linux's limit of {} KiB for each file",
        MAX_XATTR_LIST >> 10
    )]
    AttributeNames,
    /// The shared extended attributes are too long together.
    #[error("the tree has too many extended attributes")]
    SharedAttributes,
    /// The holes of the file are too many or too large.
    #[error(
        "its holes would take more than {} GiB, and more than its data",
        MAX_WASTE >> 30
    )]
    Holes,
    /// With this entry, the image becomes too large.
    #[error("it would make the image exceed {MAX_BLOCKS} blocks")]
    ImageTooLarge,
}
