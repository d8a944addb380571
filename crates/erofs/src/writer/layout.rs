//! Assigns places in the image.
//!
//! ```text
//! superblock, root │ shared attributes │ directories │ inodes with addresses │ inodes with contents │ contents of files
//! ```
//!
//! All metadata is at the beginning. A walk over all names reads the directories only, from front to back: a directory's blocks,
//! then the inodes of those in it, then the same for each of these. Then come the inodes that say where blocks are, and
//! those that have all of their contents behind them, both in walk order. The contents of larger files follow in the same order.
//!
//! If something is inserted, all changes that says where something is: directories and addresses. Both are small, and nothing
//! else is among them. All else moves by whole blocks: see [`groups`](super::groups).

use std::cmp::Reverse;

use verimount_scan::{Entry, EntryId, InodeId, InodeKind, SourceTree};

use super::{
    BuildError, Format, Unstorable,
    attributes::Attributes,
    equal::Equal,
    groups::ends_group,
    metadata_space::MetadataSpace,
    shape::{Data, Shape},
    superblock,
};
use crate::raw::INODE_SLOT;

/// The most blocks of an image. Their numbers have 32 bits, and the last number stands for a hole.
pub(super) const MAX_BLOCKS: u64 = u32::MAX as u64;

/// Where everything is.
#[derive(Debug)]
pub(super) struct Layout {
    /// By the numbers of inodes.
    pub(super) places: Vec<Placed>,
    /// The inodes in the order of their places.
    pub(super) inodes: Vec<InodeId>,
    /// The directories that have blocks, in the order of these.
    pub(super) directories: Vec<EntryId>,
    /// The block of the shared attributes; 0 if there are none.
    pub(super) shared_attributes: u32,
    /// Blocks of the metadata, with the superblock.
    pub(super) metadata_blocks: u64,
    /// Blocks of the image, if nothing is compressed.
    pub(super) blocks: u64,
}

/// Where an inode is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Placed {
    /// Its number in the image. None is 0, where the superblock is.
    pub(super) nid: u32,
    pub(super) stored: Stored,
}

/// Where the data of an inode is that is not behind it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Stored {
    /// There is none.
    #[default]
    Nowhere,
    /// From this block on.
    From(u32),
    /// In so many blocks, which an index tells.
    Compressed(u32),
}

impl Placed {
    /// The first block of its data, which is not compressed; 0 if there is none.
    pub(super) fn block(self) -> u32 {
        match self.stored {
            Stored::From(block) => block,
            Stored::Nowhere | Stored::Compressed(_) => 0,
        }
    }
}

impl Layout {
    pub(super) fn place(&self, inode: InodeId) -> Placed {
        self.places[inode.index()]
    }
}

/// Assigns a place to everything.
pub(super) fn lay_out(
    tree: &SourceTree,
    attributes: &Attributes,
    equal: &Equal,
    format: Format,
) -> Result<Layout, BuildError> {
    let mut planner = Planner {
        attributes,
        format,
        space: MetadataSpace::new(format.block, superblock::end(format)),
        layout: Layout {
            places: vec![Placed::default(); tree.inodes().len()],
            inodes: Vec::new(),
            directories: Vec::new(),
            shared_attributes: 0,
            metadata_blocks: 0,
            blocks: 0,
        },
    };
    planner.add_inode(tree.root())?;
    planner.add_shared_attributes(tree.root())?;
    planner.add_directories(tree)?;
    planner.add_addresses(tree)?;
    planner.add_whole_inodes(tree)?;
    planner.add_contents(tree, equal)?;
    Ok(planner.finish(tree))
}

/// The first name of each inode that is no directory, in walk order.
fn inodes_of_files(tree: &SourceTree) -> impl Iterator<Item = Entry<'_>> {
    tree.entries()
        .filter(|entry| entry.is_first_name() && !entry.is_directory())
}

struct Planner<'a> {
    attributes: &'a Attributes,
    format: Format,
    space: MetadataSpace,
    layout: Layout,
}

impl Planner<'_> {
    /// All directories: the blocks of each, then the inodes of those in it, then the same for each of these.
    fn add_directories(&mut self, tree: &SourceTree) -> Result<(), BuildError> {
        let mut waiting = vec![tree.root()];
        while let Some(directory) = waiting.pop() {
            self.add_directory_blocks(directory)?;
            let above = waiting.len();
            waiting.extend(directory.children().filter(|child| child.is_directory()));
            for child in &waiting[above..] {
                self.add_inode(*child)?;
            }
            // The first one is taken next.
            waiting[above..].reverse();
        }
        Ok(())
    }

    /// The inodes that say where blocks are.
    fn add_addresses(&mut self, tree: &SourceTree) -> Result<(), BuildError> {
        for entry in inodes_of_files(tree) {
            if self.has_address(entry) {
                self.add_inode(entry)?;
            }
        }
        Ok(())
    }

    /// The inodes with all of their contents behind them, in groups. The first one fills what is left between those with
    /// addresses, so that a small image has no more blocks than it needs.
    fn add_whole_inodes(&mut self, tree: &SourceTree) -> Result<(), BuildError> {
        let (mut group, mut len) = (Vec::new(), 0);
        for entry in inodes_of_files(tree) {
            if self.has_address(entry) {
                continue;
            }
            group.push(entry);
            len += self.shape(entry).len();
            if ends_group(entry, len, self.format.block) {
                self.add_group(&mut group)?;
                len = 0;
            }
        }
        self.add_group(&mut group)
    }

    /// Packs a group: the largest first, so that the smaller ones fill the blocks.
    fn add_group(&mut self, group: &mut Vec<Entry<'_>>) -> Result<(), BuildError> {
        group.sort_by_cached_key(|entry| Reverse(self.shape(*entry).len()));
        for entry in group.drain(..) {
            self.add_inode(entry)?;
        }
        self.space.close();
        Ok(())
    }

    fn shape(&self, entry: Entry<'_>) -> Shape {
        Shape::new(entry, self.attributes, self.format)
    }

    /// Whether an inode says where blocks are.
    fn has_address(&self, entry: Entry<'_>) -> bool {
        match self.shape(entry).data {
            Data::Flat { blocks, .. } => blocks > 0,
            Data::Chunks(_) | Data::Compressed(_) => true,
        }
    }

    fn add_inode(&mut self, entry: Entry<'_>) -> Result<(), BuildError> {
        let len = self.shape(entry).len();
        let at = self.space.inode(len);
        self.check(self.space.end, entry)?;
        // The metadata has less than 2³² blocks, but more units of inode numbers.
        let nid = u32::try_from(at / INODE_SLOT).map_err(|_| too_large(entry))?;
        self.layout.places[entry.inode_id().index()].nid = nid;
        Ok(())
    }

    fn add_shared_attributes(&mut self, root: Entry<'_>) -> Result<(), BuildError> {
        let blocks = self.format.block.blocks_for(self.attributes.shared_len);
        if blocks > 0 {
            let at = self.space.blocks(blocks);
            self.layout.shared_attributes = self.block_at(at, root)?;
        }
        Ok(())
    }

    fn add_directory_blocks(&mut self, directory: Entry<'_>) -> Result<(), BuildError> {
        let blocks = self.shape(directory).blocks();
        if blocks > 0 {
            let at = self.space.blocks(blocks);
            self.layout.places[directory.inode_id().index()].stored =
                Stored::From(self.block_at(at, directory)?);
            self.layout.directories.push(directory.id());
        }
        Ok(())
    }

    /// The contents of files in walk order, equal ones once.
    fn add_contents(&mut self, tree: &SourceTree, equal: &Equal) -> Result<(), BuildError> {
        let mut end = self.format.block.blocks_for(self.space.end);
        self.layout.metadata_blocks = end;
        for entry in tree.entries().filter(|entry| entry.is_first_name()) {
            let inode = entry.inode_id();
            if !matches!(
                entry.inode().kind,
                InodeKind::File(_) | InodeKind::Symlink(_)
            ) {
                continue;
            }
            if equal.is_repeated(inode) {
                let first = self.layout.place(equal.first(inode)).stored;
                self.layout.places[inode.index()].stored = first;
                continue;
            }
            let blocks = self.shape(entry).blocks();
            if blocks > 0 {
                // Both are less than 2⁵³.
                self.check((end + blocks) * self.format.block.bytes(), entry)?;
                self.layout.places[inode.index()].stored = Stored::From(end as u32);
                end += blocks;
            }
        }
        self.layout.blocks = end;
        Ok(())
    }

    fn finish(self, tree: &SourceTree) -> Layout {
        let mut layout = self.layout;
        layout.inodes = tree
            .entries()
            .filter(|entry| entry.is_first_name())
            .map(Entry::inode_id)
            .collect();
        let places = &layout.places;
        layout
            .inodes
            .sort_unstable_by_key(|inode| places[inode.index()].nid);
        layout
    }

    /// The number of the block at `at`, which has been placed for `entry`.
    fn block_at(&self, at: u64, entry: Entry<'_>) -> Result<u32, BuildError> {
        self.check(self.space.end, entry)?;
        u32::try_from(at / self.format.block.bytes()).map_err(|_| too_large(entry))
    }

    /// Refuses an image with this end.
    fn check(&self, end: u64, entry: Entry<'_>) -> Result<(), BuildError> {
        if self.format.block.blocks_for(end) <= MAX_BLOCKS {
            Ok(())
        } else {
            Err(too_large(entry))
        }
    }
}

/// The error for the entry with which the image becomes too large.
fn too_large(entry: Entry<'_>) -> BuildError {
    BuildError::unstorable(entry, Unstorable::ImageTooLarge)
}
