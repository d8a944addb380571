//! The order of writes in each mode, so that a crash at any point leaves a usable volume.

use std::ops::Range;

use crate::{
    BadBlock, Error, Mode, SECTOR, Superblock,
    bitmap::Bitmap,
    blocks::{Blocks, parts},
    journal::{Journal, Pending, Ring},
};

use super::SavedSuperblock;

/// The number of sectors zeroed at a time in journal mode: 1 MiB.
const ZEROS: u64 = 2048;

/// A volume's mode with its state.
///
/// The table shows the order of writes; a semicolon means "then, once that is durable". "In place"
/// means the order of [`Blocks`]: the data, and at any time after it the tag.
///
/// | mode | write | flush |
/// |---|---|---|
/// | journal | memory, later journal sections; in place; the sections may be reused | journal sections; |
/// | bitmap | bits of the regions; in place | all tags; sometimes the bits are cleared |
/// | direct | in place | all tags; |
///
/// A discard in journal mode first empties the journal, as its entries would restore the discarded
/// data, and then writes tags; data. A block whose tag is the discard mark reads successfully
/// whatever its data, but a block whose data is gone while its old tag remains would fail to read.
/// A crash could write only one half of a tag that spans two sectors, so the journal zeroes such
/// blocks instead.
pub(super) enum Consistency {
    Journal(Box<Journal>),
    Bitmap(Box<Bitmap>),
    Direct,
    /// With what the journal holds.
    ReadOnly(Pending),
    RecoveryUnverified,
}

impl Consistency {
    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::Journal(_) => Mode::Journal,
            Self::Bitmap(_) => Mode::Bitmap,
            Self::Direct => Mode::Direct,
            Self::ReadOnly(_) => Mode::ReadOnly,
            Self::RecoveryUnverified => Mode::RecoveryUnverified,
        }
    }

    /// Reads blocks, and returns those that do not match their tags.
    pub(super) fn read(
        &self,
        blocks: &Blocks,
        sector: u64,
        buf: &mut [u8],
    ) -> Result<Vec<BadBlock>, Error> {
        match self {
            Self::Journal(journal) => journal.read(blocks, sector, buf),
            Self::ReadOnly(held) => held.read(blocks, sector, buf),
            Self::Bitmap(_) | Self::Direct => blocks.read(sector, buf),
            Self::RecoveryUnverified => {
                blocks.read_unverified(sector, buf)?;
                Ok(Vec::new())
            }
        }
    }

    /// Writes blocks and their precomputed tags.
    pub(super) fn write(
        &self,
        blocks: &Blocks,
        sector: u64,
        data: &[u8],
        tags: &[u8],
    ) -> Result<(), Error> {
        if let Self::Journal(journal) = self {
            return journal.write(blocks, sector, data, tags);
        }
        self.prepare_in_place(&(sector..sector + data.len() as u64 / SECTOR))?;
        blocks.write(sector, data, tags)
    }

    /// Zeroes blocks.
    pub(super) fn zero(&self, blocks: &Blocks, range: Range<u64>) -> Result<(), Error> {
        if let Self::Journal(journal) = self {
            let zeros = vec![0; (ZEROS.min(range.end - range.start) * SECTOR) as usize];
            for part in parts(range, ZEROS) {
                let zeros = &zeros[..((part.end - part.start) * SECTOR) as usize];
                let tags = blocks.tagger.tags(part.start, zeros);
                journal.write(blocks, part.start, zeros, &tags)?;
            }
            return Ok(());
        }
        self.prepare_in_place(&range)?;
        blocks.zero(range)
    }

    /// Marks blocks as discarded, and deallocates their space.
    pub(super) fn discard(&self, blocks: &Blocks, range: Range<u64>) -> Result<(), Error> {
        if let Self::Journal(journal) = self {
            for block in blocks.with_split_tags(range.clone()) {
                self.zero(blocks, block)?;
            }
            journal.clear(blocks)?;
            let mut start = range.start;
            for block in blocks.with_split_tags(range.clone()) {
                blocks.set_discarded_tags(start..block.start)?;
                start = block.end;
            }
            blocks.set_discarded_tags(start..range.end)?;
            blocks.flush()?;
            return blocks.zero_data(range);
        }
        self.prepare_in_place(&range)?;
        blocks.discard(range)
    }

    /// What comes before sectors are written in place without a journal.
    fn prepare_in_place(&self, range: &Range<u64>) -> Result<(), Error> {
        match self {
            Self::Bitmap(bitmap) => bitmap.mark(range),
            Self::Journal(_) | Self::Direct => Ok(()),
            Self::ReadOnly(_) | Self::RecoveryUnverified => Err(Error::ReadOnly),
        }
    }

    /// Makes all earlier writes durable.
    pub(super) fn flush(&self, blocks: &Blocks) -> Result<(), Error> {
        match self {
            Self::Journal(journal) => journal.flush(blocks),
            Self::Bitmap(_) | Self::Direct => blocks.flush(),
            Self::ReadOnly(_) | Self::RecoveryUnverified => Ok(()),
        }
    }

    /// Makes everything durable in place, so that the next open has nothing to recover.
    pub(super) fn close(
        &self,
        blocks: &Blocks,
        ring: &Ring,
        superblock: &SavedSuperblock,
    ) -> Result<(), Error> {
        match self {
            Self::Journal(journal) => journal.clear(blocks),
            Self::Bitmap(_) => {
                blocks.flush()?;
                // If all tags are valid, misreading the journal as a bitmap does no harm.
                if superblock.get().recalculation_sector().is_some() {
                    superblock.update(Superblock::forget_bitmap)?;
                }
                ring.initialise()?;
                superblock.update(|superblock| superblock.dirty_bitmap = false)
            }
            Self::Direct => blocks.flush(),
            Self::ReadOnly(_) | Self::RecoveryUnverified => Ok(()),
        }
    }
}
