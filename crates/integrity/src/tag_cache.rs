//! The tag cache. It collects tags across requests and tracks which ones it holds, so that
//! completely rewritten tag sectors are written back without being read first.

mod chunk;
mod layout;
mod load;
mod state;
mod write_back;

use std::{ops::Range, sync::Arc};

use verimount_source::Streams;
use verimount_sync::{Condvar, Mutex};

use crate::{Error, geometry::Geometry, storage::Storage};

use layout::ChunkLayout;
use state::State;
pub(crate) use write_back::WriteBack;

/// The minimum number of cached chunks, however small the memory limit: a few concurrent requests
/// need one or two each.
const MIN_CHUNKS: usize = 16;

/// The maximum size of a read or write, in bytes.
const MAX_REQUEST: usize = 1 << 20;

/// A cache of a volume's tags.
///
/// A tag always reads as it was last set, whether or not it has been written back. Nothing is
/// written before [`Self::write_back`] is called or the cache is full.
pub(crate) struct TagCache {
    storage: Arc<Storage>,
    layout: ChunkLayout,
    block_bytes: u64,
    max_chunks: usize,
    state: Mutex<State>,
    /// Signalled when loading a chunk succeeds or fails.
    loaded: Condvar,
    /// Held while dirty tags are written back, so that two writes of the same sector reach the
    /// storage in order. Nothing else takes this lock.
    writing: Mutex<()>,
    streams: Streams,
    /// Whether each sector is read before tags in it are first set. The cache exists to avoid these reads; this is for
    /// measuring what they cost.
    pub(crate) reads_back: bool,
}

impl TagCache {
    /// A cache of about `max_bytes` bytes.
    pub(crate) fn new(storage: Arc<Storage>, geometry: &Geometry, max_bytes: usize) -> Self {
        let layout = ChunkLayout::new(geometry);
        Self {
            storage,
            layout,
            block_bytes: geometry.shape.block_size.bytes() as u64,
            max_chunks: (max_bytes / layout.chunk_len()).max(MIN_CHUNKS),
            state: Mutex::default(),
            loaded: Condvar::new(),
            writing: Mutex::default(),
            streams: Streams::default(),
            reads_back: false,
        }
    }

    /// Starts prefetching the tags of `blocks`, without waiting.
    pub(crate) fn will_need(&self, blocks: Range<u64>) {
        let state = self.state.lock();
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
        let is_sequential = self.streams.is_sequential(&read);
        let len = (blocks.end - blocks.start) as usize * self.layout.tag_size;
        let mut tags = Vec::with_capacity(len);
        for piece in self.layout.pieces(blocks) {
            let mut state = self.state.lock();
            loop {
                if state.holds(&piece) {
                    let chunk = state.chunk(piece.id, &self.layout);
                    tags.extend_from_slice(chunk.tags(piece.tags.clone()));
                    break;
                }
                if state.is_loading(piece.id) {
                    state = self.loaded.wait(state);
                } else {
                    state = self.load(state, &piece, is_sequential)?;
                }
            }
        }
        Ok(tags)
    }

    /// Sets the tags of the blocks from `first` on.
    pub(crate) fn set(&self, first: u64, tags: &[u8]) -> Result<(), Error> {
        let mut rest = tags;
        let count = (tags.len() / self.layout.tag_size) as u64;
        if self.reads_back {
            self.read_back(first..first + count)?;
        }
        let mut state = self.state.lock();
        for piece in self.layout.pieces(first..first + count) {
            let (own, others) = rest.split_at(piece.tags.len() * self.layout.tag_size);
            self.make_room(&mut state, 1);
            state
                .chunk(piece.id, &self.layout)
                .set(piece.tags.start, own);
            state.dirty.insert(piece.id);
            rest = others;
        }
        let is_full = state.dirty.len() > self.max_chunks / 2;
        drop(state);
        if is_full { self.relieve() } else { Ok(()) }
    }

    /// Evicts the least recently used chunks if `more` additional chunks would exceed the limit.
    fn make_room(&self, state: &mut State, more: usize) {
        if state.chunks.len() + more <= self.max_chunks {
            return;
        }
        // Evict a batch at once: searching for the oldest chunk each time would cost more.
        let mut idle: Vec<(u64, u64)> = state
            .chunks
            .iter()
            .filter(|(_, chunk)| !chunk.is_loading && !chunk.is_dirty())
            .map(|(&id, chunk)| (chunk.last_used, id))
            .collect();
        idle.sort_unstable();
        for &(_, id) in idle.iter().take(more + self.max_chunks / 8) {
            state.chunks.remove(&id);
        }
        state.check();
    }
}
