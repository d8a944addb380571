//! A scanned tree, with what its image has of each entry.

use verimount_scan::{Entry, Inode, InodeKind, SourceTree};
use verimount_tree::FileType;

use super::{BuildError, Unstorable};
use crate::{
    geometry::to_usize, index::MAX_DIRECTORIES, name::MAX_NAME_LEN, node::MAX_TARGET_LEN,
    reader::MAX_DIRECTORY_ENTRIES,
};

/// A tree that the format can represent, unless it is too large in all.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) source: SourceTree,
    /// By the numbers of entries.
    pub(super) items: Vec<Item>,
}

/// What the image has of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) file_type: FileType,
    /// The number of a device as it is stored; 0 for other types.
    pub(super) device: u32,
    pub(super) executable: bool,
    /// Bytes of data of its inode.
    pub(super) data_len: u32,
    pub(super) place: Offsets,
}

/// The offsets of an item in the image; zero until the tree is laid out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Offsets {
    /// Offset of its header.
    pub(super) header: u32,
    /// End of its header, where its data begins, or a directory's `.` and `..`.
    pub(super) body: u32,
}

impl Tree {
    /// Refuses what the format cannot represent.
    pub(super) fn new(source: SourceTree) -> Result<Self, BuildError> {
        let items = source
            .entries()
            .map(|entry| Item::new(entry).map_err(|reason| BuildError::unstorable(entry, reason)));
        let items = items.collect::<Result<_, _>>()?;
        let mut directories = source.entries().filter(|entry| entry.is_directory());
        let too_many = directories.nth(to_usize(MAX_DIRECTORIES));
        if let Some(entry) = too_many {
            return Err(BuildError::unstorable(entry, Unstorable::Directories));
        }
        drop(directories);
        Ok(Self { source, items })
    }

    /// All entries in walk order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Entry<'_>, &Item)> {
        self.source.entries().zip(&self.items)
    }

    /// The directories, in walk order.
    pub(super) fn directories(&self) -> impl Iterator<Item = (Entry<'_>, &Item)> {
        self.iter().filter(|(_, item)| item.is_directory())
    }

    /// What is in a directory, in order.
    pub(super) fn children<'t>(
        &'t self,
        directory: Entry<'t>,
    ) -> impl Iterator<Item = (Entry<'t>, &'t Item)> {
        let children = directory.children();
        children.filter_map(|entry| Some((entry, self.items.get(entry.id().index())?)))
    }

    /// Where an entry is.
    pub(super) fn place(&self, entry: Entry<'_>) -> Offsets {
        let item = self.items.get(entry.id().index());
        item.map_or_else(Offsets::default, |item| item.place)
    }

    /// The offset of an entry's header; 0 for none, as in romfs.
    pub(super) fn header(&self, entry: Option<Entry<'_>>) -> u32 {
        entry.map_or(0, |entry| self.place(entry).header)
    }

    /// The entry that has the header and data of this one's inode: another one for a hard link.
    pub(super) fn target<'t>(&'t self, entry: Entry<'t>) -> Entry<'t> {
        self.source.entry(entry.inode().first_name)
    }
}

impl Item {
    fn new(entry: Entry<'_>) -> Result<Self, Unstorable> {
        let name = entry.name();
        if name.len() > MAX_NAME_LEN {
            return Err(Unstorable::NameTooLong(name.len()));
        }
        let inode = entry.inode();
        let file_type = inode.kind.file_type();
        if file_type == FileType::Directory && entry.children().nth(MAX_DIRECTORY_ENTRIES).is_some()
        {
            return Err(Unstorable::DirectoryEntries);
        }
        Ok(Self {
            file_type,
            device: device(inode)?,
            executable: match file_type {
                FileType::Directory => true,
                FileType::RegularFile => inode.permissions.bits() & 0o111 != 0,
                _ => false,
            },
            data_len: data_len(inode)?,
            place: Offsets::default(),
        })
    }

    pub(super) fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }
}

/// The number of a device, with the major one in the upper half; 0 for anything else.
fn device(inode: &Inode) -> Result<u32, Unstorable> {
    let (InodeKind::BlockDevice(device) | InodeKind::CharDevice(device)) = &inode.kind else {
        return Ok(0);
    };
    let (major, minor) = (device.major(), device.minor());
    if major.max(minor) > u32::from(u16::MAX) {
        return Err(Unstorable::DeviceNumber { major, minor });
    }
    Ok((major << 16) | minor)
}

/// Bytes of data of an inode.
fn data_len(inode: &Inode) -> Result<u32, Unstorable> {
    match &inode.kind {
        InodeKind::File(file) => {
            u32::try_from(file.size()).map_err(|_| Unstorable::FileTooLarge(file.size()))
        }
        InodeKind::Symlink(target) => {
            let len = u32::try_from(target.len()).ok();
            len.filter(|len| (1..=MAX_TARGET_LEN).contains(len))
                .ok_or(Unstorable::TargetLen(target.len()))
        }
        _ => Ok(0),
    }
}
