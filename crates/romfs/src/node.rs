use verimount_tree::FileType;

use crate::{
    error::Defect,
    geometry::{ALIGNMENT, MAX_HEADER_LEN, MIN_HEADER_LEN, to_usize},
    raw::{EXECUTABLE, FILE_TYPES, MODE_MASK, TYPE_MASK},
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

/// The type that mode bits tell; `None` for a hard link.
pub(crate) fn file_type(mode: u32) -> Option<FileType> {
    let mut types = FILE_TYPES.into_iter();
    types.find_map(|(bits, file_type)| (bits == mode & TYPE_MASK).then_some(file_type))
}

/// Whether data follows the headers of this type.
pub(crate) fn has_data(file_type: FileType) -> bool {
    matches!(file_type, FileType::RegularFile | FileType::Symlink)
}

/// The device number of this type that a word of a header or of the index is; 0 for other types.
pub(crate) fn device(file_type: FileType, word: u32) -> u32 {
    match file_type {
        FileType::BlockDevice | FileType::CharDevice => word,
        _ => 0,
    }
}

/// The permission bits that Linux shows, the only ones that romfs can express.
pub(crate) fn permissions(file_type: FileType, executable: bool) -> u16 {
    match file_type {
        FileType::Directory | FileType::RegularFile if executable => 0o755,
        FileType::Symlink => 0o777,
        FileType::BlockDevice | FileType::CharDevice => 0o600,
        _ => 0o644,
    }
}

/// A file, directory or other node, without its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its id. All hard links to a file have the same id.
    pub id: NodeId,
    /// Its type.
    pub file_type: FileType,
    /// The number of a device, with the major one in the upper half; 0 for other types.
    pub device: u32,
    /// The executable bit: a file can be executed, a directory searched.
    pub executable: bool,
    /// The length of the data of a file or symbolic link in bytes; 0 for other types.
    pub size: u32,
    /// The offset of the data in the image in bytes; 0 for types without data.
    pub data_offset: u64,
}

impl Node {
    /// Validates a node from a header or the index, for an image of `image_size` accessible bytes. `word` is its device number
    /// if it is a device.
    pub(crate) fn new(
        id: NodeId,
        mode: u32,
        file_type: FileType,
        word: u32,
        (data_offset, size): (u32, u32),
        image_size: u32,
    ) -> Result<Self, Defect> {
        let (data_offset, size) = if has_data(file_type) {
            (data_offset, size)
        } else {
            (0, 0)
        };
        let data_end = u64::from(data_offset).saturating_add(size.into());
        if data_end > image_size.into() {
            return Err(Defect::DataRange);
        }
        if file_type == FileType::Symlink && !(1..=MAX_TARGET_LEN).contains(&size) {
            return Err(Defect::TargetLen(size));
        }
        Ok(Self {
            id,
            file_type,
            device: device(file_type, word),
            executable: mode & EXECUTABLE != 0,
            size,
            data_offset: data_offset.into(),
        })
    }

    /// The permission bits that Linux shows: 0644 or 0755 for files and directories.
    pub fn permissions(&self) -> u16 {
        permissions(self.file_type, self.executable)
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
