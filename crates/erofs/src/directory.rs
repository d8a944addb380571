//! Directories: finding a name, and listing from any position on.

use std::ops::ControlFlow;

use crate::{
    Error,
    directory_block::Entry,
    directory_search::{Block, search},
    error::Defect,
    image::Image,
    inode::Inode,
    inode_id::InodeId,
    layout::Layout,
    numbers::{to_u64, to_usize},
    raw,
    space::{Address, Space},
};

/// What a directory tells of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) id: InodeId,
    /// `None` if it does not tell.
    pub(crate) file_type: Option<verimount_tree::FileType>,
}

/// A directory whose content is read block by block.
pub(crate) struct Directory<'i> {
    image: &'i Image,
    inode: &'i Inode,
    block_size: u64,
    /// Number of blocks.
    blocks: u64,
}

impl<'i> Directory<'i> {
    /// The directory with this inode.
    pub(crate) fn new(image: &'i Image, inode: &'i Inode) -> Self {
        let block_size = image.superblock.block_size;
        Self {
            image,
            inode,
            block_size: block_size.bytes(),
            blocks: block_size.blocks_for(inode.size),
        }
    }

    /// The file of this name.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<Found>, Error> {
        let Some(block) = search(self.blocks, name, |number| self.block(number))? else {
            return Ok(None);
        };
        let entry = block.parsed()?.find(name)?;
        Ok(entry.map(|entry| self.found(&entry)))
    }

    /// Gives the entries from `position` on to `visit`, with the position behind each, until it breaks. A position is the
    /// offset of an entry; `.` and `..` are left out. Where blocks are left out, it gets the reasons.
    ///
    /// As names are in order across calls, too, no entry comes twice.
    pub(crate) fn list(
        &self,
        position: u64,
        mut visit: impl FnMut(Result<(&[u8], Found, u64), Error>) -> ControlFlow<()>,
    ) {
        let (first, mut from) = self.place_of(position);
        let mut last_name = match self.last_name_before(position) {
            Ok(name) => name,
            Err(error) => match visit(Err(error)) {
                ControlFlow::Continue(()) => Vec::new(),
                ControlFlow::Break(()) => return,
            },
        };
        for number in first..self.blocks {
            let mut found = |name: &[u8], found, next| visit(Ok((name, found, next)));
            let listed = self.list_block(number, from, &mut last_name, &mut found);
            let listed = listed.unwrap_or_else(|error| visit(Err(error)));
            if listed.is_break() {
                break;
            }
            from = 0;
        }
    }

    /// The entries of a block, all behind `last_name`.
    fn list_block(
        &self,
        number: u64,
        from: usize,
        last_name: &mut Vec<u8>,
        visit: &mut impl FnMut(&[u8], Found, u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        let block = self.block(number)?;
        let parsed = block.parsed()?;
        for index in from..parsed.len() {
            let entry = parsed.entry(index)?;
            if entry.name <= last_name.as_slice() {
                return Err(Defect::NameOrder.at(block.address).into());
            }
            last_name.clear();
            last_name.extend_from_slice(entry.name);
            let next = self.position_behind(number, index, parsed.len());
            if !entry.is_dot() && visit(entry.name, self.found(&entry), next).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The number of the block at a position, and that of the entry in it.
    fn place_of(&self, position: u64) -> (u64, usize) {
        let block = position.checked_div(self.block_size).unwrap_or_default();
        let inside = position.checked_rem(self.block_size).unwrap_or_default();
        let entry = inside.div_ceil(to_u64(size_of::<raw::DirectoryEntry>()));
        (block, to_usize(entry))
    }

    /// The name in front of the entry at a position; empty if there is none.
    fn last_name_before(&self, position: u64) -> Result<Vec<u8>, Error> {
        let (block, index) = self.place_of(position);
        if block >= self.blocks {
            return Ok(Vec::new());
        }
        let name = match (index.checked_sub(1), block.checked_sub(1)) {
            (Some(before), _) => {
                let block = self.block(block)?;
                let parsed = block.parsed()?;
                if before < parsed.len() {
                    parsed.entry(before)?.name.to_vec()
                } else {
                    parsed.last_name()?.to_vec()
                }
            }
            (None, Some(before)) => self.block(before)?.parsed()?.last_name()?.to_vec(),
            (None, None) => Vec::new(),
        };
        Ok(name)
    }

    fn position_behind(&self, block: u64, index: usize, count: usize) -> u64 {
        let index = index.saturating_add(1);
        if index == count {
            return block.saturating_add(1).saturating_mul(self.block_size);
        }
        let inside = index.saturating_mul(size_of::<raw::DirectoryEntry>());
        let start = block.saturating_mul(self.block_size);
        start.saturating_add(to_u64(inside))
    }

    fn found(&self, entry: &Entry<'_>) -> Found {
        Found {
            id: self.image.superblock.inode_id(entry.nid),
            file_type: entry.file_type,
        }
    }

    fn block(&self, number: u64) -> Result<Block, Error> {
        let offset = number.saturating_mul(self.block_size);
        let rest = self.inode.size.saturating_sub(offset);
        let address = self.address(offset)?;
        let bytes = self
            .image
            .bytes(address, to_usize(rest.min(self.block_size)))?;
        Ok(Block {
            number,
            address,
            bytes,
        })
    }

    /// Where a block is: where possible in the image, so that it is kept only once.
    fn address(&self, offset: u64) -> Result<Address, Error> {
        let content = Address {
            space: Space::Content(self.inode.id),
            at: offset,
        };
        match self.inode.layout {
            Layout::Flat {
                tail: Some(tail), ..
            } if offset >= tail.from => Ok(tail.at),
            Layout::Flat { at, .. } if self.image.devices.is_one() => {
                let at = Address::in_image(at).plus(offset);
                at.ok_or(Defect::Address.at(content).into())
            }
            _ => Ok(content),
        }
    }
}
