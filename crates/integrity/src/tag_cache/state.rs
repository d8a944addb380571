use std::collections::{BTreeSet, HashMap};

use super::{
    chunk::Chunk,
    layout::{ChunkLayout, Piece},
};

/// The contents of a tag cache.
#[derive(Default)]
pub(super) struct State {
    pub(super) chunks: HashMap<u64, Chunk>,
    /// The ids of the dirty chunks, in order.
    pub(super) dirty: BTreeSet<u64>,
    clock: u64,
}

impl State {
    pub(super) fn holds(&self, piece: &Piece) -> bool {
        self.chunks
            .get(&piece.id)
            .is_some_and(|chunk| chunk.holds(piece.tags.clone()))
    }

    pub(super) fn is_loading(&self, id: u64) -> bool {
        self.chunks.get(&id).is_some_and(|chunk| chunk.is_loading)
    }

    /// The chunk `id`, created if it is not cached.
    pub(super) fn chunk(&mut self, id: u64, layout: &ChunkLayout) -> &mut Chunk {
        self.clock += 1;
        let chunk = self
            .chunks
            .entry(id)
            .or_insert_with(|| Chunk::new(layout.tags(id), layout.tag_size));
        chunk.last_used = self.clock;
        chunk
    }

    pub(super) fn check(&self) {
        let is_dirty = |id: &u64| self.chunks.get(id).is_some_and(Chunk::is_dirty);
        debug_assert!(self.dirty.iter().all(is_dirty), "a dirty chunk was evicted");
        debug_assert!(
            self.chunks
                .keys()
                .all(|id| !is_dirty(id) || self.dirty.contains(id)),
            "a dirty chunk would never be written back"
        );
    }
}
