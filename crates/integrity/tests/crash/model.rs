//! The model: the contents that each block of a volume may have after a crash.

use std::ops::Range;

use verimount_integrity::Mode;

use crate::SECTOR;

/// The contents of a sector: 0 for zeros, or the number of the write that wrote it.
pub(crate) type Stamp = u32;

/// Contents that no write wrote.
const GARBAGE: Stamp = Stamp::MAX;

/// The bytes of a sector.
pub(crate) fn bytes_of(stamp: Stamp, sector: usize) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if stamp != 0 {
        let word = u64::from(stamp) << 32 | sector as u64;
        let (words, _) = bytes.as_chunks_mut();
        words.fill(word.to_le_bytes());
    }
    bytes
}

/// The stamp of a sector with these bytes.
pub(crate) fn stamp_of(bytes: &[u8], sector: usize) -> Stamp {
    let stamp = bytes[4..]
        .first_chunk()
        .map_or(GARBAGE, |stamp| Stamp::from_le_bytes(*stamp));
    if bytes == bytes_of(stamp, sector) {
        stamp
    } else {
        GARBAGE
    }
}

/// The contents that a volume's blocks may have.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    /// The mode in which the volume was open or being opened.
    pub(crate) mode: Mode,
    /// The volume was being opened for the first time after a crash.
    pub(crate) is_recovering: bool,
    /// Some blocks are not checked because their tags await recalculation.
    pub(crate) is_recalculating: bool,
    blocks: Vec<Block>,
    block_sectors: usize,
}

#[derive(Debug, Clone)]
struct Block {
    /// The stamps of its sectors at the last flush, and after each write since then.
    versions: Vec<Vec<Stamp>>,
    doubt: Doubt,
}

/// How a block may deviate from its versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    None,
    /// It may mix sectors of different versions.
    Torn,
    /// It may not match its tag.
    Mismatch,
    /// It may have any contents: it mismatched after the last crash, or was written in direct mode
    /// while a recalculation of all tags was pending.
    Unknown,
}

impl Model {
    /// A volume with these contents; `None` for blocks that cannot be read.
    pub(crate) fn new(mode: Mode, found: Vec<Option<Vec<Stamp>>>, block_sectors: usize) -> Self {
        let block = |found: Option<Vec<Stamp>>| Block {
            doubt: if found.is_some() {
                Doubt::None
            } else {
                Doubt::Unknown
            },
            versions: found.into_iter().collect(),
        };
        Self {
            mode,
            is_recovering: false,
            is_recalculating: false,
            blocks: found.into_iter().map(block).collect(),
            block_sectors,
        }
    }

    /// Records that sectors are about to be written.
    pub(crate) fn write(&mut self, sectors: Range<usize>, stamp: Stamp) {
        for number in self.blocks_of(&sectors) {
            let first = number * self.block_sectors;
            let block = &mut self.blocks[number];
            let mut version = match block.versions.last() {
                Some(last) => last.clone(),
                None => vec![GARBAGE; self.block_sectors],
            };
            for (index, sector) in version.iter_mut().enumerate() {
                if sectors.contains(&(first + index)) {
                    *sector = stamp;
                }
            }
            block.versions.push(version);
        }
        self.rewrite(sectors);
    }

    /// Records that blocks are about to be rewritten unchanged, with new tags.
    pub(crate) fn rewrite(&mut self, sectors: Range<usize>) {
        let doubt = match self.mode {
            Mode::Journal | Mode::ReadOnly | Mode::RecoveryUnverified => Doubt::None,
            Mode::Bitmap => Doubt::Torn,
            Mode::Direct if self.is_recalculating => Doubt::Unknown,
            Mode::Direct => Doubt::Mismatch,
        };
        for number in self.blocks_of(&sectors) {
            let block = &mut self.blocks[number];
            block.doubt = block.doubt.max(doubt);
        }
    }

    /// Records that the blocks entirely within these sectors are about to be discarded.
    pub(crate) fn discard(&mut self, sectors: Range<usize>) {
        let start = sectors.start.next_multiple_of(self.block_sectors);
        let end = sectors.end / self.block_sectors * self.block_sectors;
        if start < end {
            self.write(start..end, 0);
        }
    }

    /// Records that all writes are durable.
    pub(crate) fn flush(&mut self) {
        for block in &mut self.blocks {
            if let Some(last) = block.versions.pop() {
                block.versions = vec![last];
                block.doubt = Doubt::None;
            }
        }
    }

    /// The sectors of unreadable blocks.
    pub(crate) fn lost(&self) -> Vec<Range<usize>> {
        let is_lost = |&number: &usize| self.blocks[number].versions.is_empty();
        let lost = (0..self.blocks.len()).filter(is_lost);
        lost.map(|number| number * self.block_sectors..(number + 1) * self.block_sectors)
            .collect()
    }

    /// Fails if any block has contents that are not allowed.
    pub(crate) fn check(&self, found: &[Option<Vec<Stamp>>]) {
        for (number, (block, found)) in self.blocks.iter().zip(found).enumerate() {
            let is_allowed = match found {
                None => block.doubt >= Doubt::Mismatch,
                Some(found) => block.may_be(found),
            };
            assert!(
                is_allowed,
                "block {number} is {found:?}, should be {block:?}"
            );
        }
    }

    fn blocks_of(&self, sectors: &Range<usize>) -> Range<usize> {
        sectors.start / self.block_sectors..sectors.end.div_ceil(self.block_sectors)
    }
}

impl Block {
    fn may_be(&self, found: &[Stamp]) -> bool {
        let mut stamps = found.iter().enumerate();
        self.doubt == Doubt::Unknown
            || self.versions.iter().any(|version| version == found)
            || (self.doubt == Doubt::Torn
                && stamps.all(|(sector, stamp)| {
                    let mut versions = self.versions.iter();
                    versions.any(|version| version[sector] == *stamp)
                }))
    }
}
