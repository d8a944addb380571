//! A scanned tree, with what its image has of each entry.

use verimount_scan::{Entry, Inode, InodeKind, SourceTree};

use crate::{
    Error, NodeKind, Unstorable, geometry::to_usize, index::MAX_DIRECTORIES, node::MAX_TARGET_LEN,
    reader::MAX_DIRECTORY_ENTRIES, writer::MAX_NAME_LEN,
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
    pub(super) kind: NodeKind,
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
    pub(super) fn new(source: SourceTree) -> Result<Self, Error> {
        let unstorable = |entry: Entry<'_>, reason| {
            let path = entry.path();
            Error::Unstorable { path, reason }
        };
        let items = source.entries().map(|entry| {
            let item = Item::new(entry);
            item.map_err(|reason| unstorable(entry, reason))
        });
        let items = items.collect::<Result<_, _>>()?;
        let mut directories = source.entries().filter(|entry| entry.is_directory());
        let too_many = directories.nth(to_usize(MAX_DIRECTORIES));
        let too_many = too_many.map(|entry| unstorable(entry, Unstorable::Directories));
        drop(directories);
        match too_many {
            Some(error) => Err(error),
            None => Ok(Self { source, items }),
        }
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
        let kind = kind(inode)?;
        if kind == NodeKind::Directory && entry.children().nth(MAX_DIRECTORY_ENTRIES).is_some() {
            return Err(Unstorable::DirectoryEntries);
        }
        Ok(Self {
            kind,
            executable: match kind {
                NodeKind::Directory => true,
                NodeKind::File => inode.permissions.bits() & 0o111 != 0,
                _ => false,
            },
            data_len: data_len(inode)?,
            place: Offsets::default(),
        })
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == NodeKind::Directory
    }
}

fn kind(inode: &Inode) -> Result<NodeKind, Unstorable> {
    Ok(match &inode.kind {
        InodeKind::Directory(_) => NodeKind::Directory,
        InodeKind::File(_) => NodeKind::File,
        InodeKind::Symlink(_) => NodeKind::Symlink,
        InodeKind::Socket => NodeKind::Socket,
        InodeKind::Fifo => NodeKind::Fifo,
        InodeKind::BlockDevice(device) | InodeKind::CharDevice(device) => {
            let (large_major, large_minor) = (device.major(), device.minor());
            let numbers = (u16::try_from(large_major), u16::try_from(large_minor));
            let (Ok(major), Ok(minor)) = numbers else {
                return Err(Unstorable::DeviceNumber {
                    major: large_major,
                    minor: large_minor,
                });
            };
            match inode.kind {
                InodeKind::BlockDevice(_) => NodeKind::BlockDevice { major, minor },
                _ => NodeKind::CharDevice { major, minor },
            }
        }
    })
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
