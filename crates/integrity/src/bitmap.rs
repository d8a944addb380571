//! The dirty bitmap: which regions are being written. It is stored in place of the journal.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use verimount_sync::Mutex;

use crate::{
    Error, Unsupported,
    bits::{Bits, runs},
    geometry::Geometry,
    storage::Storage,
};

/// The base-2 logarithm of the sectors per bit (16 MiB), if the journal area has room for that many
/// bits.
const DEFAULT_LOG2_SECTORS: u8 = 15;

/// The bitmap is written in blocks of this many bytes.
const BLOCK: usize = 4096;

const BITS_PER_BLOCK: usize = 8 * BLOCK;

/// The longest supported bitmap in bytes. A few copies are kept in memory, and the superblock of a
/// sparse file can claim any length. With regions of the default size, this is enough for 2 EiB.
const MAX_LEN: usize = 16 << 20;

/// The most bits that are set ahead of a write; as many are set ahead as directly precede it. A
/// sequential writer then waits less often, and a crash leaves at most 128 MiB more to recalculate.
const MAX_AHEAD: usize = 8;

/// Where a volume's bitmap is stored, and the region that each bit covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BitmapLayout {
    offset: u64,
    bits: usize,
    log2_sectors_per_bit: u8,
    log2_sectors_per_block: u8,
}

impl BitmapLayout {
    /// The default number of bits, or fewer if there is not enough room.
    pub(crate) fn new(geometry: &Geometry) -> Result<Self, Error> {
        let log2_block = geometry.shape.block_size.log2_sectors();
        (DEFAULT_LOG2_SECTORS - log2_block..64)
            .filter_map(|log2| Self::with_blocks_per_bit(geometry, log2))
            .find(|layout| layout.len() <= MAX_LEN)
            .ok_or(Error::TooSmall {
                available: geometry.journal_len() / crate::SECTOR,
            })
    }

    /// One bit for each 2 to the power of `log2_blocks` blocks; `None` if there is not enough room.
    pub(crate) fn with_blocks_per_bit(geometry: &Geometry, log2_blocks: u8) -> Option<Self> {
        let log2_sectors_per_block = geometry.shape.block_size.log2_sectors();
        let log2_sectors_per_bit = log2_blocks.checked_add(log2_sectors_per_block)?;
        let per_bit = 1_u64.checked_shl(log2_sectors_per_bit.into())?;
        let bits = geometry.provided_data_sectors.div_ceil(per_bit);
        let len = bits.div_ceil(BITS_PER_BLOCK as u64) * BLOCK as u64;
        (len <= geometry.journal_len()).then_some(Self {
            offset: geometry.journal_offset(),
            bits: usize::try_from(bits).ok()?,
            log2_sectors_per_bit,
            log2_sectors_per_block,
        })
    }

    /// The base-2 logarithm of the blocks per bit, as stored in the superblock.
    pub(crate) fn log2_blocks_per_bit(&self) -> u8 {
        self.log2_sectors_per_bit - self.log2_sectors_per_block
    }

    /// Reads the stored bits.
    ///
    /// # Errors
    /// [`Unsupported::BitmapSize`], before any memory is allocated, and read errors.
    pub(crate) fn read(&self, storage: &Storage) -> Result<Bits, Error> {
        if self.len() > MAX_LEN {
            return Err(Unsupported::BitmapSize(self.len() as u64).into());
        }
        let mut bytes = vec![0; self.len()];
        storage.read_metadata(&mut bytes, self.offset)?;
        let mut bits = Bits::from_le_bytes(&bytes);
        // The padding after the last bit has no meaning.
        bits.remove(self.bits..self.len() * 8);
        Ok(bits)
    }

    /// A bitmap with the bits of all regions from `sector` on.
    pub(crate) fn all_from(&self, sector: u64) -> Bits {
        let mut bits = Bits::new(self.len() * 8);
        bits.insert(self.bit(sector)..self.bits);
        bits
    }

    /// The bit of a sector.
    pub(crate) fn bit(&self, sector: u64) -> usize {
        usize::try_from(sector >> self.log2_sectors_per_bit).unwrap_or(usize::MAX)
    }

    /// The first sector after the region of a bit.
    pub(crate) fn end(&self, bit: usize) -> u64 {
        (bit as u64 + 1) << self.log2_sectors_per_bit
    }

    fn bits_of(&self, sectors: &Range<u64>) -> Range<usize> {
        if sectors.is_empty() {
            0..0
        } else {
            self.bit(sectors.start)..self.bit(sectors.end - 1) + 1
        }
    }

    fn len(&self) -> usize {
        self.bits.div_ceil(BITS_PER_BLOCK) * BLOCK
    }
}

/// The bitmap of an open volume.
pub(crate) struct Bitmap {
    storage: Arc<Storage>,
    layout: BitmapLayout,
    /// The minimum time that bits stay set, as the next writes often go to the same regions.
    clear_interval: Duration,
    state: Mutex<State>,
    /// Held while bits are written, so that two writes of the same bits reach the storage in order.
    writing: Mutex<()>,
}

struct State {
    /// Bits that are set and survive a crash.
    durable: Bits,
    last_cleared: Instant,
}

impl Bitmap {
    /// Writes `bits` as the volume's bitmap, durably.
    pub(crate) fn create(
        storage: Arc<Storage>,
        layout: BitmapLayout,
        bits: Bits,
        clear_interval: Duration,
    ) -> Result<Self, Error> {
        debug_assert!(
            (layout.bits..layout.len() * 8).all(|bit| !bits.contains(bit)),
            "a bit that stands for no region is never cleared"
        );
        storage.write_metadata_durable(&bits.to_le_bytes(0..layout.len() * 8), layout.offset)?;
        Ok(Self {
            storage,
            layout,
            clear_interval,
            state: Mutex::new(State {
                durable: bits,
                last_cleared: Instant::now(),
            }),
            writing: Mutex::default(),
        })
    }

    /// Sets the bits of sectors that are about to be written, and returns when the bits are
    /// durable.
    pub(crate) fn mark(&self, sectors: &Range<u64>) -> Result<(), Error> {
        let bits = self.layout.bits_of(sectors);
        debug_assert!(bits.end <= self.layout.bits);
        let is_marked = || self.state.lock().durable.contains_all(bits.clone());
        if is_marked() {
            return Ok(());
        }
        let _writing = self.writing.lock();
        if is_marked() {
            return Ok(());
        }
        let mut marked = self.state.lock().durable.clone();
        let before = (0..bits.start).rev().take(MAX_AHEAD);
        let sequential = before.take_while(|&bit| marked.contains(bit)).count();
        let bits = bits.start..(bits.end + sequential).min(self.layout.bits);
        marked.insert(bits.clone());
        let blocks = bits.start / BITS_PER_BLOCK..bits.end.div_ceil(BITS_PER_BLOCK);
        let (bytes, offset) = self.stored(&marked, blocks);
        self.storage.write_metadata_durable(&bytes, offset)?;
        self.state.lock().durable.insert(bits);
        debug_assert!(is_marked());
        Ok(())
    }

    /// Whether bits have been kept for the minimum time.
    pub(crate) fn is_clearing_due(&self) -> bool {
        self.state.lock().last_cleared.elapsed() >= self.clear_interval
    }

    /// Clears the bits of all regions that end at or before the sector `limit`. All writes to them
    /// must be durable, and no write may run at the same time.
    pub(crate) fn clear_below(&self, limit: u64) -> Result<(), Error> {
        let _writing = self.writing.lock();
        let end = self.layout.bit(limit).min(self.layout.bits);
        let mut cleared = self.state.lock().durable.clone();
        cleared.remove(0..end);
        let has_changed = |block: usize| {
            let bits = block * BITS_PER_BLOCK..(block + 1) * BITS_PER_BLOCK;
            let before = self.state.lock().durable.to_le_bytes(bits.clone());
            before != cleared.to_le_bytes(bits)
        };
        // This need not be durable: a stale bit only costs recalculation.
        for blocks in runs(0..end.div_ceil(BITS_PER_BLOCK), has_changed) {
            let (bytes, offset) = self.stored(&cleared, blocks);
            self.storage.write_metadata(&bytes, offset)?;
        }
        let mut state = self.state.lock();
        state.durable = cleared;
        state.last_cleared = Instant::now();
        Ok(())
    }

    /// The stored form of some blocks of the bitmap, and their offset.
    fn stored(&self, bits: &Bits, blocks: Range<usize>) -> (Vec<u8>, u64) {
        let offset = self.layout.offset + (blocks.start * BLOCK) as u64;
        let range = blocks.start * BITS_PER_BLOCK..blocks.end * BITS_PER_BLOCK;
        (bits.to_le_bytes(range), offset)
    }
}
