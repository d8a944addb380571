use std::{collections::HashMap, sync::Arc};

use verimount_sync::Mutex;

use crate::{BadBlock, Error, blocks::Blocks, raw::SECTOR, superblock::Shape};

/// The blocks and tags of one write.
#[derive(Debug)]
struct Write {
    data: Vec<u8>,
    tags: Vec<u8>,
}

/// One block of a write.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) sector: u64,
    write: Arc<Write>,
    index: usize,
    sizes: Sizes,
}

/// The sizes of a block and a tag in bytes.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    block: usize,
    tag: usize,
}

impl Entry {
    pub(super) fn data(&self) -> &[u8] {
        &self.write.data[self.index * self.sizes.block..][..self.sizes.block]
    }

    pub(super) fn tag(&self) -> &[u8] {
        &self.write.tags[self.index * self.sizes.tag..][..self.sizes.tag]
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.write, &other.write) && self.index == other.index
    }
}

/// Blocks that are newer than their copy in place.
#[derive(Debug)]
pub(crate) struct Pending {
    sizes: Sizes,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest contents of each block.
    newest: HashMap<u64, Entry>,
    /// Blocks that are not in the journal yet, in the order of their writes.
    uncommitted: Vec<Entry>,
}

impl Pending {
    /// None yet, of a volume of this shape.
    pub(crate) fn new(shape: &Shape) -> Self {
        Self {
            sizes: Sizes {
                block: shape.block_size.bytes(),
                tag: shape.tag_size.bytes(),
            },
            state: Mutex::default(),
        }
    }

    /// Reads blocks, from here where they are newer than at their place; gives those that do not match their
    /// tags.
    pub(crate) fn read(
        &self,
        blocks: &Blocks,
        sector: u64,
        buf: &mut [u8],
    ) -> Result<Vec<BadBlock>, Error> {
        let step = self.sizes.block / SECTOR;
        let count = buf.len() / self.sizes.block;
        let state = self.state.lock();
        let sectors = (sector..).step_by(step).take(count);
        let newest = sectors.map(|sector| state.newest.get(&sector).cloned());
        let newest: Vec<Option<Entry>> = newest.collect();
        drop(state);
        let mut bad = Vec::new();
        let mut index = 0;
        for run in newest.chunk_by(|one, other| one.is_some() == other.is_some()) {
            let len = run.len() * self.sizes.block;
            let part = &mut buf[index * self.sizes.block..][..len];
            if run[0].is_some() {
                for (block, entry) in part
                    .chunks_exact_mut(self.sizes.block)
                    .zip(run.iter().flatten())
                {
                    block.copy_from_slice(entry.data());
                }
            } else {
                bad.extend(blocks.read(sector + (index * step) as u64, part)?);
            }
            index += run.len();
        }
        Ok(bad)
    }

    /// Adds a write, and returns the number of blocks that are not in the journal yet.
    pub(super) fn add(&self, sector: u64, data: &[u8], tags: &[u8]) -> usize {
        let write = Arc::new(Write {
            data: data.to_vec(),
            tags: tags.to_vec(),
        });
        let step = self.sizes.block / SECTOR;
        debug_assert!(sector.is_multiple_of(step as u64));
        debug_assert_eq!(
            data.len() / self.sizes.block,
            tags.len() / self.sizes.tag,
            "each block has a tag"
        );
        let mut state = self.state.lock();
        for (index, sector) in (sector..)
            .step_by(step)
            .take(data.len() / self.sizes.block)
            .enumerate()
        {
            let entry = Entry {
                sector,
                write: write.clone(),
                index,
                sizes: self.sizes,
            };
            state.newest.insert(sector, entry.clone());
            state.uncommitted.push(entry);
        }
        state.uncommitted.len()
    }

    /// The number of blocks that are not in the journal yet.
    pub(super) fn uncommitted(&self) -> usize {
        self.state.lock().uncommitted.len()
    }

    /// The oldest blocks that are not in the journal yet: at most `most`, rounded down to a
    /// multiple of `multiple`.
    pub(super) fn oldest(&self, most: usize, multiple: usize) -> Vec<Entry> {
        let state = self.state.lock();
        let count = state.uncommitted.len().min(most) / multiple * multiple;
        state.uncommitted[..count].to_vec()
    }

    /// Records that the oldest `count` uncommitted blocks are now in the journal.
    pub(super) fn commit_oldest(&self, count: usize) {
        self.state.lock().uncommitted.drain(..count);
    }

    /// Removes blocks that have been written in place, unless a newer write has replaced them.
    pub(super) fn settle<'a>(&self, entries: impl Iterator<Item = &'a Entry>) {
        let mut state = self.state.lock();
        for entry in entries {
            let newest = state.newest.get(&entry.sector);
            if newest.is_some_and(|newest| newest.is_same(entry)) {
                state.newest.remove(&entry.sector);
            }
        }
    }
}
