use std::ops::Range;

use zerocopy::little_endian::U32;

use crate::{
    Error, Unsupported,
    block_size::BlockSize,
    error::Defect,
    image::Image,
    piece::{Piece, Stored},
    raw::{self, HOLE, chunk_format},
    space::Address,
};

/// The chunks of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunks {
    /// Where the record of the first chunk is.
    records: Address,
    record: Record,
    /// The base-2 logarithm of a chunk's size in bytes: less than 64.
    bits: u32,
}

/// The form of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    /// A block address.
    Block,
    /// A device and a block address, of which these bits count.
    Index { mask: u64 },
}

impl Record {
    /// Its length in bytes.
    const fn len(self) -> u64 {
        match self {
            Self::Block => 4,
            Self::Index { .. } => 8,
        }
    }
}

impl Chunks {
    /// The chunks of a file with this chunk format, whose records begin at `behind` or after it.
    pub(crate) fn new(format: u16, block_size: BlockSize, behind: Address) -> Result<Self, Error> {
        if format & !chunk_format::ALL != 0 {
            return Err(Unsupported::ChunkFormat(format).into());
        }
        let record = match format & chunk_format::INDEXES {
            0 => Record::Block,
            _ if format & chunk_format::WIDE == 0 => Record::Index {
                mask: u32::MAX.into(),
            },
            _ => Record::Index { mask: HOLE },
        };
        let records = behind.aligned_to(record.len());
        Ok(Self {
            records: records.ok_or(Defect::Address.at(behind))?,
            record,
            bits: u32::from(block_size.bits())
                .saturating_add((format & chunk_format::SIZE_MASK).into()),
        })
    }

    /// Where the records are for a part of the content, which is not empty, and their length in bytes.
    pub(crate) fn records_of(&self, part: &Range<u64>) -> Result<(Address, u64), Error> {
        let last = part.end.saturating_sub(1);
        let [first, last] = [part.start, last].map(|offset| self.number_of(offset));
        let len = self.record.len();
        let count = last.saturating_sub(first).saturating_add(1);
        Ok((self.record_at(first)?, count.saturating_mul(len)))
    }

    /// The part of the chunk that holds byte `offset` of the content, from there on.
    pub(crate) fn piece(&self, image: &Image, offset: u64) -> Result<Piece, Error> {
        let number = self.number_of(offset);
        let size = 1_u64.checked_shl(self.bits).unwrap_or(u64::MAX);
        let inside = offset & size.saturating_sub(1);
        let chunk = self.chunk(image, number)?;
        let stored = match chunk {
            None => Stored::Hole,
            Some((device, block)) => {
                let at = image.superblock.block_size.start_of(block);
                let at = at.and_then(|at| at.checked_add(inside));
                let at = at.ok_or(Defect::Address.at(self.records))?;
                Stored::Plain(image.devices.locate(device, at)?)
            }
        };
        let len = size.saturating_sub(inside);
        Ok(Piece { stored, len })
    }

    /// Device and block of a chunk; `None` for a hole.
    fn chunk(&self, image: &Image, number: u64) -> Result<Option<(u16, u64)>, Error> {
        image.work.add_records(1);
        let at = self.record_at(number)?;
        let (device, block, hole) = match self.record {
            Record::Block => {
                let block: U32 = image.structure(at)?;
                (0, u64::from(block.get()), u32::MAX.into())
            }
            Record::Index { mask } => {
                let index: raw::ChunkIndex = image.structure(at)?;
                let block = u64::from(index.high.get()) << 32 | u64::from(index.low.get());
                (index.device.get(), block & mask, mask)
            }
        };
        Ok((block != hole).then_some((device, block)))
    }

    /// The number of the chunk that holds a byte.
    fn number_of(&self, offset: u64) -> u64 {
        offset.checked_shr(self.bits).unwrap_or_default()
    }

    fn record_at(&self, number: u64) -> Result<Address, Error> {
        let at = number.checked_mul(self.record.len());
        let at = at.and_then(|at| self.records.plus(at));
        Ok(at.ok_or(Defect::Address.at(self.records))?)
    }
}
