use std::fmt;

use crate::inode_id::InodeId;

/// What an offset of metadata is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// The image.
    Image,
    /// The content of a file: of the metabox, which holds inodes, or of a directory.
    Content(InodeId),
}

/// An offset of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) space: Space,
    /// In bytes.
    pub(crate) at: u64,
}

impl Address {
    /// The byte `at` of the image.
    pub(crate) const fn in_image(at: u64) -> Self {
        let space = Space::Image;
        Self { space, at }
    }

    /// `len` bytes further on; `None` if no offset is that large.
    pub(crate) fn plus(self, len: u64) -> Option<Self> {
        let at = self.at.checked_add(len)?;
        Some(Self { at, ..self })
    }

    /// The next offset that is a multiple of `unit`, which is not 0.
    pub(crate) fn aligned_to(self, unit: u64) -> Option<Self> {
        let at = self.at.checked_next_multiple_of(unit)?;
        Some(Self { at, ..self })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match self.space {
            Space::Image => write!(f, "byte {at}"),
            Space::Content(id) => write!(f, "byte {at} of inode {id}'s content"),
        }
    }
}
