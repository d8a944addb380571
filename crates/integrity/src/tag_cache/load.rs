//! Loading tags from the storage.

use std::{mem, ops::Range};

use verimount_sync::MutexGuard;

use crate::{Error, raw::SECTOR};

use super::{MAX_REQUEST, TagCache, layout::Piece, state::State};

/// The granularity of reads for missing tags, in sectors: a page.
const GRANULE: usize = 8;

/// Chunks that a thread is reading from the storage. Until this is dropped, other threads that need
/// them wait, and they are not evicted.
struct Loading<'a> {
    cache: &'a TagCache,
    ids: Range<u64>,
}

impl<'a> Loading<'a> {
    fn begin(cache: &'a TagCache, state: &mut State, ids: Range<u64>) -> Self {
        for id in ids.clone() {
            let chunk = state.chunk(id, &cache.layout);
            debug_assert!(!chunk.is_loading, "two threads read chunk {id}");
            chunk.is_loading = true;
        }
        Self { cache, ids }
    }

    fn end(&mut self, state: &mut State) {
        for id in mem::take(&mut self.ids) {
            let chunk = state.chunk(id, &self.cache.layout);
            debug_assert!(chunk.is_loading, "chunk {id} was evicted while it was read");
            chunk.is_loading = false;
        }
        self.cache.loaded.notify_all();
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        // If the storage panicked, `end` was not called.
        if !self.ids.is_empty() {
            self.end(&mut self.cache.state.lock());
        }
    }
}

impl TagCache {
    /// Reads the missing tags of `piece`, and for a sequential reader also the rest of the area,
    /// which it needs next.
    pub(super) fn load<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        piece: &Piece,
        is_sequential: bool,
    ) -> Result<MutexGuard<'a, State>, Error> {
        let ids = if is_sequential {
            self.loadable(&state, piece.id)
        } else {
            piece.id..piece.id + 1
        };
        self.make_room(&mut state, (ids.end - ids.start) as usize);
        let first = state.chunk(piece.id, &self.layout);
        let sectors = if is_sequential {
            0..first.sectors()
        } else {
            first.missing(piece.tags.clone(), GRANULE)
        };
        let mut loading = Loading::begin(self, &mut state, ids.clone());
        drop(state);

        let last_len = self.layout.tags(ids.end - 1) * self.layout.tag_size;
        let end = if is_sequential {
            self.layout.offset(ids.end - 1) + last_len.next_multiple_of(SECTOR) as u64
        } else {
            self.layout.offset(piece.id) + (sectors.end * SECTOR) as u64
        };
        let start = self.layout.offset(piece.id) + (sectors.start * SECTOR) as u64;
        let mut stored = vec![0; (end - start) as usize];
        let result = self.storage.read_metadata(&mut stored, start);

        let mut state = self.state.lock();
        if result.is_ok() {
            for id in ids {
                let chunk = state.chunk(id, &self.layout);
                let first_sector = if id == piece.id { sectors.start } else { 0 };
                let from = self.layout.offset(id) + (first_sector * SECTOR) as u64 - start;
                let own = &stored[from as usize..];
                let len = (chunk.sectors() - first_sector) * SECTOR;
                chunk.fill(first_sector, &own[..len.min(own.len())]);
            }
        }
        loading.end(&mut state);
        result?;
        Ok(state)
    }

    /// Reads the unknown sectors of these blocks' tags, one by one.
    pub(super) fn read_back(&self, blocks: Range<u64>) -> Result<(), Error> {
        for piece in self.layout.pieces(blocks) {
            let mut state = self.state.lock();
            self.make_room(&mut state, 1);
            let missing = state.chunk(piece.id, &self.layout).missing(piece.tags, 1);
            drop(state);
            for sector in missing {
                self.read_sectors(piece.id, sector..sector + 1)?;
            }
        }
        Ok(())
    }

    /// Reads these sectors of a chunk.
    pub(super) fn read_sectors(&self, id: u64, sectors: Range<usize>) -> Result<(), Error> {
        let mut stored = vec![0; sectors.len() * SECTOR];
        let offset = self.layout.offset(id) + (sectors.start * SECTOR) as u64;
        self.storage.read_metadata(&mut stored, offset)?;
        let mut state = self.state.lock();
        state.chunk(id, &self.layout).fill(sectors.start, &stored);
        Ok(())
    }

    /// The chunks from `id` on to read in one request: within one area, and up to the first that
    /// another thread is reading.
    fn loadable(&self, state: &State, id: u64) -> Range<u64> {
        let area = self.layout.rest_of_area(id);
        let most = (MAX_REQUEST / self.layout.chunk_len()).clamp(1, self.max_chunks / 4) as u64;
        let end = (id + 1..area.end.min(id + most))
            .find(|&id| state.is_loading(id))
            .unwrap_or(area.end.min(id + most));
        id..end
    }
}
