use crate::{
    error::Defect,
    geometry::{ALIGNMENT, MAX_HEADER_LEN, MIN_HEADER_LEN, to_usize},
    raw::{EXECUTABLE, MODE_MASK, TYPE_MASK, file_type},
};

/// The maximum length of a symbolic link's target in bytes: the limit of paths in Linux.
pub(crate) const MAX_TARGET_LEN: u32 = 4095;

/// The id of a file or directory: the offset of its header in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The id with this number; `None` unless it is a multiple of 16, as all headers' offsets are.
    pub fn from_raw(offset: u32) -> Option<Self> {
        offset.is_multiple_of(ALIGNMENT).then_some(Self(offset))
    }

    /// The id in a word that combines an offset with mode bits.
    pub(crate) fn from_word(word: u32) -> Self {
        Self(word & !MODE_MASK)
    }

    /// The header's offset in the image, in bytes.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl From<NodeId> for u64 {
    fn from(id: NodeId) -> Self {
        id.0.into()
    }
}

/// The type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, whose target is its data.
    Symlink,
    /// A block device.
    BlockDevice {
        /// Major number.
        major: u16,
        /// Minor number.
        minor: u16,
    },
    /// A character device.
    CharDevice {
        /// Major number.
        major: u16,
        /// Minor number.
        minor: u16,
    },
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
}

impl NodeKind {
    /// The kind for these type bits and, for devices, this device number; `None` for a hard link.
    pub(crate) fn from_bits(mode: u32, device: u32) -> Option<Self> {
        let [a, b, c, d] = device.to_be_bytes();
        let (major, minor) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Some(match mode & TYPE_MASK {
            file_type::DIRECTORY => Self::Directory,
            file_type::FILE => Self::File,
            file_type::SYMLINK => Self::Symlink,
            file_type::BLOCK_DEVICE => Self::BlockDevice { major, minor },
            file_type::CHAR_DEVICE => Self::CharDevice { major, minor },
            file_type::SOCKET => Self::Socket,
            file_type::FIFO => Self::Fifo,
            _ => return None,
        })
    }

    /// The type bits.
    pub(crate) fn type_bits(self) -> u32 {
        match self {
            Self::Directory => file_type::DIRECTORY,
            Self::File => file_type::FILE,
            Self::Symlink => file_type::SYMLINK,
            Self::BlockDevice { .. } => file_type::BLOCK_DEVICE,
            Self::CharDevice { .. } => file_type::CHAR_DEVICE,
            Self::Socket => file_type::SOCKET,
            Self::Fifo => file_type::FIFO,
        }
    }

    /// The stored form of a device number, major in the high half; 0 for other kinds.
    pub(crate) fn device(self) -> u32 {
        match self {
            Self::BlockDevice { major, minor } | Self::CharDevice { major, minor } => {
                (u32::from(major) << 16) | u32::from(minor)
            }
            _ => 0,
        }
    }

    /// Whether data follows the header.
    pub(crate) fn has_data(self) -> bool {
        matches!(self, Self::File | Self::Symlink)
    }

    /// The permission bits that Linux shows, the only ones that romfs can express.
    pub(crate) fn permissions(self, executable: bool) -> u16 {
        match self {
            Self::Directory | Self::File if executable => 0o755,
            Self::Directory | Self::File | Self::Socket | Self::Fifo => 0o644,
            Self::Symlink => 0o777,
            Self::BlockDevice { .. } | Self::CharDevice { .. } => 0o600,
        }
    }
}

/// A file, directory or other node, without its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its id. All hard links to a file have the same id.
    pub id: NodeId,
    /// Its type.
    pub kind: NodeKind,
    /// The executable bit: a file can be executed, a directory searched.
    pub executable: bool,
    /// The length of the data of a file or symbolic link in bytes; 0 for other kinds.
    pub size: u32,
    /// The offset of the data in the image in bytes; 0 for kinds without data.
    pub data_offset: u64,
}

impl Node {
    /// Validates a node from a header or the index, for an image of `image_size` accessible bytes.
    pub(crate) fn new(
        id: NodeId,
        mode: u32,
        kind: NodeKind,
        (data_offset, size): (u32, u32),
        image_size: u32,
    ) -> Result<Self, Defect> {
        let (data_offset, size) = if kind.has_data() {
            (data_offset, size)
        } else {
            (0, 0)
        };
        let data_end = u64::from(data_offset).saturating_add(size.into());
        if data_end > image_size.into() {
            return Err(Defect::DataRange);
        }
        if kind == NodeKind::Symlink && !(1..=MAX_TARGET_LEN).contains(&size) {
            return Err(Defect::TargetLen(size));
        }
        Ok(Self {
            id,
            kind,
            executable: mode & EXECUTABLE != 0,
            size,
            data_offset: data_offset.into(),
        })
    }

    /// The permission bits that Linux shows: 0644 or 0755 for files and directories.
    pub fn permissions(&self) -> u16 {
        self.kind.permissions(self.executable)
    }
}

/// Whether the data of the header `id` can be at `offset`.
pub(crate) fn data_can_follow(id: NodeId, offset: u32) -> bool {
    let headers = to_usize(MIN_HEADER_LEN)..=MAX_HEADER_LEN;
    offset.is_multiple_of(ALIGNMENT)
        && offset
            .checked_sub(id.get())
            .is_some_and(|len| headers.contains(&to_usize(len)))
}
