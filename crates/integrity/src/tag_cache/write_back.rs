//! Writing tags back.

use crate::{Error, raw::SECTOR};

use super::{MAX_REQUEST, TagCache};

/// Which tags are written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteBack {
    /// Only tags that fill whole sectors, which need no read.
    WholeSectors,
    All,
}

/// Chunks that are being written back. If this is dropped before `is_stored` is set, they are dirty
/// again.
struct Writing<'a> {
    cache: &'a TagCache,
    ids: &'a [u64],
    is_stored: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.lock();
        for &id in self.ids {
            let chunk = state.chunk(id, &self.cache.layout);
            chunk.end_write(self.is_stored);
            if !chunk.is_dirty() {
                state.dirty.remove(&id);
            }
        }
        state.check();
    }
}

impl TagCache {
    /// Whether the tag of a block was set and not yet written back.
    pub(crate) fn is_dirty(&self, block: u64) -> bool {
        let state = self.state.lock();
        self.layout.pieces(block..block + 1).any(|piece| {
            let chunk = state.chunks.get(&piece.id);
            chunk.is_some_and(|chunk| chunk.has_dirty(piece.tags))
        })
    }

    /// Writes back tags because the cache is full. Incomplete sectors are written only if they
    /// alone fill it, as later writes may complete them.
    pub(super) fn relieve(&self) -> Result<(), Error> {
        self.write_back(WriteBack::WholeSectors)?;
        let is_full = self.state.lock().dirty.len() > self.max_chunks / 2;
        if is_full {
            self.write_back(WriteBack::All)
        } else {
            Ok(())
        }
    }

    /// Writes dirty tags to the storage. They are not durable before the storage is flushed.
    pub(crate) fn write_back(&self, extent: WriteBack) -> Result<(), Error> {
        let _writing = self.writing.lock();
        let mut next = 0;
        loop {
            let ids = self.next_dirty(next);
            let Some(&last) = ids.last() else {
                return Ok(());
            };
            // Failing to read tags fails the flush too, and then no later flush may succeed.
            self.write_chunks(&ids, extent)
                .map_err(|error| self.storage.latch(error))?;
            next = last + 1;
        }
    }

    /// A few dirty chunks from `next` on.
    fn next_dirty(&self, next: u64) -> Vec<u64> {
        let count = (MAX_REQUEST / self.layout.chunk_len()).max(1);
        let state = self.state.lock();
        state.dirty.range(next..).take(count).copied().collect()
    }

    fn write_chunks(&self, ids: &[u64], extent: WriteBack) -> Result<(), Error> {
        if extent == WriteBack::All {
            for &id in ids {
                self.read_edges(id)?;
            }
        }
        let mut writing = Writing {
            cache: self,
            ids,
            is_stored: false,
        };
        for (offset, bytes) in self.begin_write(ids) {
            self.storage.write_metadata(&bytes, offset)?;
        }
        writing.is_stored = true;
        Ok(())
    }

    /// Reads the sectors of a chunk that were only partly set.
    fn read_edges(&self, id: u64) -> Result<(), Error> {
        let edges = self.state.lock().chunk(id, &self.layout).edges();
        edges
            .into_iter()
            .try_for_each(|sectors| self.read_sectors(id, sectors))
    }

    /// The writes for these chunks, as offset and bytes, with adjacent ones merged.
    fn begin_write(&self, ids: &[u64]) -> Vec<(u64, Vec<u8>)> {
        let mut requests: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut state = self.state.lock();
        for &id in ids {
            let chunk = state.chunk(id, &self.layout);
            for (sector, bytes) in chunk.begin_write() {
                let offset = self.layout.offset(id) + (sector * SECTOR) as u64;
                match requests.last_mut() {
                    Some((start, before)) if *start + before.len() as u64 == offset => {
                        before.extend(bytes);
                    }
                    _ => requests.push((offset, bytes)),
                }
            }
        }
        requests
    }
}
