use bitflags::bitflags;

bitflags! {
    /// Features that a reader may ignore. Those that it does not know it ignores.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Compatible: u32 {
        /// The superblock has a checksum.
        const CHECKSUM = 1 << 0;
        /// Inodes of the longer form have the times of content, not of inodes.
        const MTIME = 1 << 1;
        /// Inodes say which names of extended attributes they do not have.
        const XATTR_FILTER = 1 << 2;
        /// Shared attributes are in the metabox.
        const SHARED_XATTRS_IN_METABOX = 1 << 3;
        /// The table of name prefixes is in the image, and not in the metabox or the packed inode.
        const PLAIN_XATTR_PREFIXES = 1 << 4;
    }

    /// Features without which an image cannot be read. Some bits stand for two features.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Incompatible: u32 {
        /// Compressed data ends where its blocks end.
        const ZERO_PADDING = 1 << 0;
        /// Compressed data in any algorithm, or in clusters of several blocks.
        const COMPRESSION_CONFIGURATIONS = 1 << 1;
        /// Files in chunks.
        const CHUNKS = 1 << 2;
        /// Several devices, or two algorithms in a file.
        const DEVICES = 1 << 3;
        /// Compressed data behind inodes.
        const TAIL_PACKING = 1 << 4;
        /// Ends of files in a common inode, or compressed data that files share.
        const FRAGMENTS = 1 << 5;
        /// Long prefixes of attributes' names.
        const XATTR_PREFIXES = 1 << 6;
        /// Block addresses of 48 bits.
        const WIDE_ADDRESSES = 1 << 7;
        /// Inodes inside the content of another one.
        const METABOX = 1 << 8;
    }
}

impl Incompatible {
    /// The features of an image.
    ///
    /// # Errors
    /// The bits that this reader does not know.
    pub(crate) fn read(bits: u32) -> Result<Self, u32> {
        Self::from_bits(bits).ok_or(bits & !Self::all().bits())
    }
}
