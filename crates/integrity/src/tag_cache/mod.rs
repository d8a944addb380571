//! The tag cache: it collects tags across requests and knows which ones it holds, so that a run
//! that was written whole is written back without ever having been read.

mod chunk;
mod layout;

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use verimount_source::Streams;

use crate::{Error, geometry::Geometry, raw::SECTOR, storage::Storage};

use chunk::Chunk;
use layout::{ChunkLayout, Piece};

/// The fewest chunks that are kept, however little memory is allowed: a few requests need one or
/// two each at the same time.
const MIN_CHUNKS: usize = 16;

/// What is read for a few tags that are missing, in sectors: a page.
const GRANULE: usize = 8;

/// The most that is read or written at once, in bytes.
const MAX_REQUEST: usize = 1 << 20;

/// How much a reader must have read in sequence before tags are loaded ahead for it, in bytes of
/// tags' blocks.
const FIRST_RUN: u64 = 256 << 10;

/// The tags of a volume, as far as they are held.
///
/// At any time a tag is what was set last, whether or not it has been written back. Nothing is
/// written before [`Self::write_back`] asks for it, or memory runs out.
pub(crate) struct TagCache {
    storage: Arc<Storage>,
    layout: ChunkLayout,
    block_bytes: u64,
    max_chunks: usize,
    state: Mutex<State>,
    /// A chunk was loaded, or failed to be.
    loaded: Condvar,
    /// Held while dirty tags are written: of two writes of the same sector, the one with the newer
    /// tags must come last. Nobody else waits for it.
    writing: Mutex<()>,
    streams: Streams,
}

#[derive(Default)]
struct State {
    chunks: HashMap<u64, Chunk>,
    /// Those of them that are to be written, in order.
    dirty: BTreeSet<u64>,
    clock: u64,
}

/// Which tags are written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Those that fill whole sectors, which need no read.
    WholeSectors,
    All,
}

impl TagCache {
    /// A cache of about `max_bytes` bytes.
    pub(crate) fn new(storage: Arc<Storage>, geometry: &Geometry, max_bytes: usize) -> Self {
        let layout = ChunkLayout::new(geometry);
        Self {
            storage,
            layout,
            block_bytes: geometry.shape().block_size.bytes() as u64,
            max_chunks: (max_bytes / layout.chunk_len()).max(MIN_CHUNKS),
            state: Mutex::default(),
            loaded: Condvar::new(),
            writing: Mutex::default(),
            streams: Streams::default(),
        }
    }

    /// Says that the tags of `blocks` will be asked for soon, and returns without waiting.
    pub(crate) fn will_need(&self, blocks: Range<u64>) {
        let state = self.state();
        let missing: Vec<(u64, u64)> = self
            .layout
            .pieces(blocks)
            .filter(|piece| !state.holds(piece))
            .map(|piece| (self.layout.offset(piece.id), self.layout.chunk_len() as u64))
            .collect();
        drop(state);
        for (offset, len) in missing {
            self.storage.will_need_metadata(offset, len);
        }
    }

    /// The tags of `blocks`, one after the other.
    pub(crate) fn get(&self, blocks: Range<u64>) -> Result<Vec<u8>, Error> {
        let read = blocks.start * self.block_bytes..blocks.end * self.block_bytes;
        let is_sequential = self.streams.note(&read) >= FIRST_RUN;
        let len = (blocks.end - blocks.start) as usize * self.layout.tag_size();
        let mut tags = Vec::with_capacity(len);
        for piece in self.layout.pieces(blocks) {
            let mut state = self.state();
            loop {
                if state.holds(&piece) {
                    let chunk = state.chunk(piece.id, &self.layout);
                    tags.extend_from_slice(chunk.tags(piece.tags.clone()));
                    break;
                }
                state = match state.is_loading(piece.id) {
                    true => self
                        .loaded
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner),
                    false => self.load(state, &piece, is_sequential)?,
                };
            }
        }
        Ok(tags)
    }

    /// Sets the tags of the blocks from `first` on.
    pub(crate) fn set(&self, first: u64, tags: &[u8]) -> Result<(), Error> {
        let mut rest = tags;
        let count = (tags.len() / self.layout.tag_size()) as u64;
        let mut state = self.state();
        for piece in self.layout.pieces(first..first + count) {
            let (own, others) = rest.split_at(piece.tags.len() * self.layout.tag_size());
            self.make_room(&mut state, 1);
            state
                .chunk(piece.id, &self.layout)
                .set(piece.tags.start, own);
            state.dirty.insert(piece.id);
            rest = others;
        }
        let is_full = state.dirty.len() > self.max_chunks / 2;
        drop(state);
        match is_full {
            true => self.relieve(),
            false => Ok(()),
        }
    }

    /// Writes all tags that were set, and returns when the storage has them. They are not durable
    /// before the storage is flushed.
    pub(crate) fn write_back(&self) -> Result<(), Error> {
        self.write_dirty(Extent::All)
    }

    /// Writes those tags that were set that fill whole sectors.
    pub(crate) fn write_back_whole_sectors(&self) -> Result<(), Error> {
        self.write_dirty(Extent::WholeSectors)
    }

    /// Whether the tag of a block was set and is not written back.
    pub(crate) fn is_dirty(&self, block: u64) -> bool {
        let state = self.state();
        self.layout.pieces(block..block + 1).any(|piece| {
            let chunk = state.chunks.get(&piece.id);
            chunk.is_some_and(|chunk| chunk.has_dirty(piece.tags))
        })
    }

    /// Writes tags because there are too many to keep: those that are incomplete only if they are
    /// too many by themselves, for they may yet be completed.
    fn relieve(&self) -> Result<(), Error> {
        self.write_dirty(Extent::WholeSectors)?;
        let is_full = self.state().dirty.len() > self.max_chunks / 2;
        match is_full {
            true => self.write_dirty(Extent::All),
            false => Ok(()),
        }
    }

    fn write_dirty(&self, extent: Extent) -> Result<(), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = 0;
        loop {
            let ids = self.next_dirty(next);
            let Some(&last) = ids.last() else {
                return Ok(());
            };
            let result = self.write_chunks(&ids, extent);
            let mut state = self.state();
            for &id in &ids {
                state.unpin(id);
            }
            drop(state);
            // What failed may have been stored in part, and is not marked as to be written any more.
            result.map_err(|error| self.storage.latch(error))?;
            next = last + 1;
        }
    }

    /// A few dirty chunks from `next` on, pinned.
    fn next_dirty(&self, next: u64) -> Vec<u64> {
        let count = (MAX_REQUEST / self.layout.chunk_len()).max(1);
        let mut state = self.state();
        let ids: Vec<u64> = state.dirty.range(next..).take(count).copied().collect();
        for &id in &ids {
            state.chunk(id, &self.layout).pins += 1;
        }
        ids
    }

    fn write_chunks(&self, ids: &[u64], extent: Extent) -> Result<(), Error> {
        if extent == Extent::All {
            for &id in ids {
                self.read_edges(id)?;
            }
        }
        for (offset, bytes) in self.take_dirty(ids) {
            self.storage.write_metadata(&bytes, offset)?;
        }
        Ok(())
    }

    /// Reads the sectors of a chunk of which only a part was set.
    fn read_edges(&self, id: u64) -> Result<(), Error> {
        let edges = self.state().chunk(id, &self.layout).edges();
        for sectors in edges {
            let mut stored = vec![0; sectors.len() * SECTOR];
            let offset = self.layout.offset(id) + (sectors.start * SECTOR) as u64;
            self.storage.read_metadata(&mut stored, offset)?;
            let mut state = self.state();
            state.chunk(id, &self.layout).fill(sectors.start, &stored);
        }
        Ok(())
    }

    /// What is to be written of these chunks and where, with all that is adjacent in one piece.
    fn take_dirty(&self, ids: &[u64]) -> Vec<(u64, Vec<u8>)> {
        let mut requests: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut state = self.state();
        for &id in ids {
            let chunk = state.chunk(id, &self.layout);
            for (sector, bytes) in chunk.take_dirty() {
                let offset = self.layout.offset(id) + (sector * SECTOR) as u64;
                match requests.last_mut() {
                    Some((start, before)) if *start + before.len() as u64 == offset => {
                        before.extend(bytes);
                    }
                    _ => requests.push((offset, bytes)),
                }
            }
            if !chunk.is_dirty() {
                state.dirty.remove(&id);
            }
        }
        requests
    }

    /// Reads what `piece` lacks, and for a sequential reader the rest of the area, which comes next.
    fn load<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        piece: &Piece,
        is_sequential: bool,
    ) -> Result<MutexGuard<'a, State>, Error> {
        let ids = match is_sequential {
            true => self.loadable(&state, piece.id),
            false => piece.id..piece.id + 1,
        };
        self.make_room(&mut state, (ids.end - ids.start) as usize);
        let first = state.chunk(piece.id, &self.layout);
        let sectors = match is_sequential {
            true => 0..first.sectors(),
            false => first.missing(piece.tags.clone(), GRANULE),
        };
        for id in ids.clone() {
            let chunk = state.chunk(id, &self.layout);
            chunk.is_loading = true;
            chunk.pins += 1;
        }
        drop(state);

        let last_len = self.layout.tags(ids.end - 1) * self.layout.tag_size();
        let end = match is_sequential {
            true => self.layout.offset(ids.end - 1) + last_len.next_multiple_of(SECTOR) as u64,
            false => self.layout.offset(piece.id) + (sectors.end * SECTOR) as u64,
        };
        let start = self.layout.offset(piece.id) + (sectors.start * SECTOR) as u64;
        let mut stored = vec![0; (end - start) as usize];
        let result = self.storage.read_metadata(&mut stored, start);

        let mut state = self.state();
        for id in ids.clone() {
            let chunk = state.chunk(id, &self.layout);
            if result.is_ok() {
                let first_sector = if id == piece.id { sectors.start } else { 0 };
                let from = self.layout.offset(id) + (first_sector * SECTOR) as u64 - start;
                let own = &stored[from as usize..];
                let len = (chunk.sectors() - first_sector) * SECTOR;
                chunk.fill(first_sector, &own[..len.min(own.len())]);
            }
            chunk.is_loading = false;
            state.unpin(id);
        }
        self.loaded.notify_all();
        result?;
        Ok(state)
    }

    /// The chunks from `id` on that are read in one request: of one area, as far as nobody reads
    /// them already.
    fn loadable(&self, state: &State, id: u64) -> Range<u64> {
        let area = self.layout.rest_of_area(id);
        let most = (MAX_REQUEST / self.layout.chunk_len()).clamp(1, self.max_chunks / 4) as u64;
        let end = (id + 1..area.end.min(id + most))
            .find(|&id| state.is_loading(id))
            .unwrap_or(area.end.min(id + most));
        id..end
    }

    /// Forgets chunks that were not used for long, if there would be too many with `more` of them.
    fn make_room(&self, state: &mut State, more: usize) {
        if state.chunks.len() + more <= self.max_chunks {
            return;
        }
        // A part of them at once: to look for the oldest one each time would cost more than it is worth.
        let mut idle: Vec<(u64, u64)> = state
            .chunks
            .iter()
            .filter(|(_, chunk)| chunk.pins == 0 && !chunk.is_dirty())
            .map(|(&id, chunk)| (chunk.last_used, id))
            .collect();
        idle.sort_unstable();
        for &(_, id) in idle.iter().take(more + self.max_chunks / 8) {
            state.chunks.remove(&id);
        }
    }

    // Every change of the state is complete before anything can panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn holds(&self, piece: &Piece) -> bool {
        self.chunks
            .get(&piece.id)
            .is_some_and(|chunk| chunk.holds(piece.tags.clone()))
    }

    fn is_loading(&self, id: u64) -> bool {
        self.chunks.get(&id).is_some_and(|chunk| chunk.is_loading)
    }

    /// The chunk `id`, new if there was none.
    fn chunk(&mut self, id: u64, layout: &ChunkLayout) -> &mut Chunk {
        self.clock += 1;
        let chunk = self
            .chunks
            .entry(id)
            .or_insert_with(|| Chunk::new(layout.tags(id), layout.tag_size()));
        chunk.last_used = self.clock;
        chunk
    }

    fn unpin(&mut self, id: u64) {
        if let Some(chunk) = self.chunks.get_mut(&id) {
            chunk.pins -= 1;
        }
    }
}
