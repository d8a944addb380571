//! A directory tree in memory, without its contents.

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    iter,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::PathBuf,
};

use super::Summary;
use crate::NodeKind;

/// A tree in walk order: the root first, each directory before its entries, entries by name.
#[derive(Debug)]
pub(super) struct Tree {
    /// Its path, for messages only.
    pub(super) root: PathBuf,
    /// Its root directory, relative to which everything is read.
    pub(super) directory: File,
    pub(super) items: Vec<Item>,
    pub(super) summary: Summary,
}

/// One entry of the tree.
#[derive(Debug)]
pub(super) struct Item {
    /// Its name; `.` for the root, as in its header.
    pub(super) name: Box<[u8]>,
    pub(super) kind: NodeKind,
    pub(super) executable: bool,
    pub(super) data: Data,
    /// For a hard link, the number of the item with the data.
    pub(super) link_to: Option<usize>,
    /// The number of its directory; the root's own number for the root.
    pub(super) parent: usize,
    /// The number of the next item in the same directory.
    pub(super) next: Option<usize>,
    /// The number of the first item in this directory.
    pub(super) first_child: Option<usize>,
    /// Its offsets in the image.
    pub(super) place: Place,
}

/// The data of an item.
#[derive(Debug)]
pub(super) enum Data {
    None,
    /// None; the identity of the directory.
    Directory(FileId),
    File(Identity),
    Target(Box<[u8]>),
}

/// Identifies a file or directory among all that exist at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// Shows whether a file is still the one that was scanned, with the same contents and permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    id: FileId,
    mode: u32,
    size: u32,
    modified: (i64, i64),
}

/// The offsets of an item in the image; zero until the tree is laid out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// Offset of its header.
    pub(super) header: u32,
    /// End of its header, where its data begins, or a directory's `.` and `..`.
    pub(super) body: u32,
}

impl Tree {
    /// Links the items of each directory into a chain.
    pub(super) fn link(&mut self) {
        // From the end, so that the item seen last in a directory is the next one in the chain.
        for number in (1..self.items.len()).rev() {
            let parent = self.items.get(number).map(|item| item.parent);
            let parent = parent.and_then(|parent| self.items.get_mut(parent));
            let next = parent.and_then(|parent| parent.first_child.replace(number));
            if let Some(item) = self.items.get_mut(number) {
                item.next = next;
            }
        }
    }

    /// The path of the item with this number.
    pub(super) fn path(&self, number: usize) -> PathBuf {
        match number {
            // Without a slash at its end, which would follow a symbolic link.
            0 => self.root.clone(),
            _ => self.root.join(self.path_inside(number)),
        }
    }

    /// The path of the item with this number below the root; empty for the root.
    pub(super) fn path_inside(&self, number: usize) -> PathBuf {
        let mut names = Vec::new();
        let mut number = number;
        while let Some(item) = self.items.get(number).filter(|_| number != 0) {
            names.push(OsStr::from_bytes(&item.name));
            number = item.parent;
        }
        names.iter().rev().collect()
    }

    /// The directories, in walk order.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.is_directory())
    }

    /// The items in a directory, in order.
    pub(super) fn children(&self, directory: &Item) -> impl Iterator<Item = &Item> {
        let item = |number: usize| self.items.get(number);
        let first = directory.first_child.and_then(item);
        iter::successors(first, move |child| child.next.and_then(item))
    }

    /// The offset of an item's header; 0 for none, as in romfs.
    pub(super) fn header(&self, number: Option<usize>) -> u32 {
        let item = number.and_then(|number| self.items.get(number));
        item.map_or(0, |item| item.place.header)
    }

    /// The target of a hard link; for all others, the item itself.
    pub(super) fn target<'a>(&'a self, item: &'a Item) -> &'a Item {
        let target = item.link_to.and_then(|number| self.items.get(number));
        target.unwrap_or(item)
    }
}

impl Item {
    pub(super) fn is_directory(&self) -> bool {
        self.kind == NodeKind::Directory
    }
}

impl Data {
    /// Bytes of data.
    pub(super) fn len(&self) -> u32 {
        match self {
            Self::None | Self::Directory(_) => 0,
            Self::File(identity) => identity.size,
            Self::Target(target) => u32::try_from(target.len()).unwrap_or(u32::MAX),
        }
    }
}

impl FileId {
    /// The identity in this metadata.
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

impl Identity {
    /// Bytes of contents.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// The identity in this metadata; `None` if it is not a regular file, or too large to be
    /// stored.
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        let size = u32::try_from(metadata.len()).ok()?;
        metadata.is_file().then(|| Self {
            id: FileId::of(metadata),
            mode: metadata.mode(),
            size,
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}
