//! Reading and writing blocks and their tags at their final positions on the devices.

use std::{ops::Range, sync::Arc};

use crate::{
    BadBlock, Error, SECTOR,
    geometry::{Extent, Geometry},
    storage::Storage,
    tag_cache::{TagCache, WriteBack},
    tagger::Tagger,
};

/// How many sectors are tagged at a time when all blocks have the same contents.
const TAG_STEP: u64 = 2048;

/// The layer below all modes: blocks are read and written in place with their tags, without crash
/// consistency.
///
/// Ranges are in sectors and consist of whole blocks. Callers order requests that overlap.
///
/// **Durability.** Nothing is durable before [`Self::flush`] returns. A block's data is written to
/// the storage before its tag is put into the cache, and the cache is written back before the
/// storage is flushed, so that after a flush both are durable. In between, either may be stored
/// without the other; a mode that must hide this first records the write elsewhere.
pub(crate) struct Blocks {
    pub(crate) storage: Arc<Storage>,
    pub(crate) geometry: Geometry,
    pub(crate) tagger: Tagger,
    pub(crate) tags: TagCache,
}

impl Blocks {
    pub(crate) fn new(
        storage: Arc<Storage>,
        geometry: Geometry,
        tagger: Tagger,
        cache_bytes: usize,
    ) -> Self {
        Self {
            tags: TagCache::new(storage.clone(), &geometry, cache_bytes),
            storage,
            geometry,
            tagger,
        }
    }

    /// Reads blocks without verifying them.
    pub(crate) fn read_unverified(&self, sector: u64, buf: &mut [u8]) -> Result<(), Error> {
        let mut rest = buf;
        for extent in self.extents(self.sectors(sector, rest.len())) {
            let (own, others) = rest.split_at_mut((extent.sectors * SECTOR) as usize);
            self.storage.read_data(own, extent.position * SECTOR)?;
            rest = others;
        }
        Ok(())
    }

    /// Reads blocks, and returns those that do not match their tags.
    pub(crate) fn read(&self, sector: u64, buf: &mut [u8]) -> Result<Vec<BadBlock>, Error> {
        let blocks = self.blocks(self.sectors(sector, buf.len()));
        // Prefetch missing tags while the data is read.
        self.tags.will_need(blocks.clone());
        self.read_unverified(sector, buf)?;
        let stored = self.tags.get(blocks)?;
        Ok(self.tagger.mismatches(sector, buf, &stored))
    }

    /// Writes blocks and their precomputed tags.
    pub(crate) fn write(&self, sector: u64, bytes: &[u8], tags: &[u8]) -> Result<(), Error> {
        let range = self.sectors(sector, bytes.len());
        debug_assert_eq!(tags.len(), self.tagger.tags_len(bytes.len()));
        let mut rest = bytes;
        for extent in self.extents(range.clone()) {
            let (own, others) = rest.split_at((extent.sectors * SECTOR) as usize);
            self.storage.write_data(own, extent.position * SECTOR)?;
            rest = others;
        }
        self.set_tags(range.start, tags)
    }

    /// Zeroes blocks, deallocating their space where the storage supports it.
    pub(crate) fn zero(&self, range: Range<u64>) -> Result<(), Error> {
        self.zero_data(range.clone())?;
        self.set_zero_tags(range)
    }

    /// Sets the tags of blocks whose data is already zero.
    pub(crate) fn set_zero_tags(&self, range: Range<u64>) -> Result<(), Error> {
        let zeros = vec![0; (TAG_STEP.min(range.end - range.start) * SECTOR) as usize];
        for step in parts(range, TAG_STEP) {
            let len = ((step.end - step.start) * SECTOR) as usize;
            let tags = self.tagger.tags(step.start, &zeros[..len]);
            self.set_tags(step.start, &tags)?;
        }
        Ok(())
    }

    /// Deallocates the space of blocks, and marks them as discarded.
    pub(crate) fn discard(&self, range: Range<u64>) -> Result<(), Error> {
        self.zero_data(range.clone())?;
        self.set_discarded_tags(range)
    }

    /// Marks blocks as discarded.
    pub(crate) fn set_discarded_tags(&self, range: Range<u64>) -> Result<(), Error> {
        for step in parts(range, TAG_STEP) {
            let blocks = self.blocks(step.clone());
            let tags = self.tagger.discarded((blocks.end - blocks.start) as usize);
            self.set_tags(step.start, &tags)?;
        }
        Ok(())
    }

    /// The sectors of each block whose tag is split across two tag sectors: a crash may leave half
    /// of such a tag unchanged.
    pub(crate) fn with_split_tags(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let block_sectors = self.geometry.shape.block_size.sectors();
        range
            .step_by(block_sectors as usize)
            .filter(|&sector| self.geometry.has_split_tag(sector))
            .map(move |sector| sector..sector + block_sectors)
    }

    /// Sets the tags of the blocks from `sector` on, without looking at their data.
    pub(crate) fn set_tags(&self, sector: u64, tags: &[u8]) -> Result<(), Error> {
        let block_size = self.geometry.shape.block_size;
        debug_assert!(sector.is_multiple_of(block_size.sectors()));
        self.tags.set(sector >> block_size.log2_sectors(), tags)
    }

    /// Whether the tag of the block at `sector` has yet to be written back.
    pub(crate) fn has_dirty_tag(&self, sector: u64) -> bool {
        let block = sector >> self.geometry.shape.block_size.log2_sectors();
        self.tags.is_dirty(block)
    }

    /// Makes all written blocks and their tags durable.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.tags.write_back(WriteBack::All)?;
        self.storage.flush()
    }

    /// Zeroes the data of blocks without touching their tags, deallocating the space where the
    /// storage supports it.
    pub(crate) fn zero_data(&self, range: Range<u64>) -> Result<(), Error> {
        for extent in self.extents(range) {
            self.storage
                .zero_data(extent.position * SECTOR, extent.sectors * SECTOR)?;
        }
        Ok(())
    }

    fn extents(&self, range: Range<u64>) -> impl Iterator<Item = Extent> {
        debug_assert!(range.end <= self.geometry.provided_data_sectors);
        self.geometry.extents(range)
    }

    fn sectors(&self, sector: u64, len: usize) -> Range<u64> {
        sector..sector + len as u64 / SECTOR
    }

    fn blocks(&self, sectors: Range<u64>) -> Range<u64> {
        let block_size = self.geometry.shape.block_size;
        debug_assert!(sectors.start.is_multiple_of(block_size.sectors()));
        debug_assert!(sectors.end.is_multiple_of(block_size.sectors()));
        let log2 = block_size.log2_sectors();
        sectors.start >> log2..sectors.end >> log2
    }
}

/// Splits a range of sectors into parts of `len` sectors, of which the last may be shorter.
pub(crate) fn parts(range: Range<u64>, len: u64) -> impl Iterator<Item = Range<u64>> {
    let starts = range.clone().step_by(len as usize);
    starts.map(move |start| start..range.end.min(start + len))
}
