use std::fmt;

use crate::raw::INODE_SLOT;

/// The bit of a number that says that the inode is in the metabox.
const IN_METABOX: u64 = 1 << 63;

/// Where an inode is: the offset in units of 32 bytes in the image or, with the highest bit set, in the
/// content of the metabox. Inodes that different numbers of the format lead to have one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct InodeId(u64);

impl InodeId {
    /// The inode with this id, which need not exist.
    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The inode that begins at byte `at` of the image, rounded down to a multiple of 32.
    pub(crate) fn in_image(at: u64) -> Self {
        Self(at.checked_div(INODE_SLOT).unwrap_or_default())
    }

    /// The inode at this position in the metabox, in units of 32 bytes.
    pub(crate) fn in_metabox(slot: u64) -> Self {
        Self(slot | IN_METABOX)
    }

    /// The id as a number.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// Whether it is in the metabox.
    pub(crate) const fn is_in_metabox(self) -> bool {
        self.0 & IN_METABOX != 0
    }

    /// The offset in units of 32 bytes, in the image or the metabox.
    pub(crate) const fn slot(self) -> u64 {
        self.0 & !IN_METABOX
    }

    /// The offset in bytes, in the image or the metabox; `None` if no offset is that large.
    pub(crate) fn offset(self) -> Option<u64> {
        self.slot().checked_mul(INODE_SLOT)
    }
}

impl fmt::Display for InodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_place() {
        let in_image = InodeId::in_image(1152);
        assert_eq!((in_image.get(), in_image.offset()), (36, Some(1152)));
        assert!(!in_image.is_in_metabox());
        let in_metabox = InodeId::in_metabox(36);
        assert_eq!(in_metabox.offset(), Some(1152));
        assert!(in_metabox.is_in_metabox() && in_metabox != in_image);
        assert_eq!(InodeId::from_raw(1 << 60).offset(), None);
    }
}
