use std::ops::Range;

use zerocopy::{
    FromBytes,
    little_endian::{U32, U64},
};

use crate::{
    Error,
    compressed::extent::{Coding, Data, Extent, Location},
    decode::Algorithm,
    error::Defect,
    image::Image,
    numbers::to_usize,
    raw::{self, advice, extent_len},
    space::Address,
};

/// A list of a file's extents.
#[derive(Debug)]
pub(crate) struct ExtentList {
    map: Address,
    /// Where the first record is; with records of 4 bytes, an address is in front of it.
    records: Address,
    record: Record,
    /// The base-2 logarithm of the size that all extents have, with short records.
    cluster_bits: u32,
    /// The number of extents, with long records.
    count: u64,
    is_interlaced: bool,
    has_fragment: bool,
}

/// The form of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    /// A length: extents have one size, and their data follows each other.
    Len,
    /// Length and address: extents have one size.
    Place,
    /// Also the offset in the file, in 32 bits.
    Offset,
    /// Length, address, and the offset in the file, in 64 bits.
    WideOffset,
}

impl Record {
    /// Its length in bytes.
    const fn len(self) -> u64 {
        match self {
            Self::Len => 4,
            Self::Place => 8,
            Self::Offset => 16,
            Self::WideOffset => 32,
        }
    }
}

/// What a record says of an extent's data.
#[derive(Debug, Clone, Copy)]
struct Stored {
    /// Length and flags.
    len: u32,
    at: u64,
}

/// A record that says where the extent begins.
struct Listed {
    start: u64,
    stored: Stored,
}

/// An extent that was searched for.
struct Found {
    number: u64,
    listed: Listed,
    /// Where it ends in the file.
    end: u64,
}

impl ExtentList {
    /// The list that the header `raw` tells of, which is at `behind` or after it.
    pub(crate) fn new(
        raw: &raw::MapHeader,
        behind: Address,
        cluster_bits: u32,
    ) -> Result<Self, Error> {
        let advised = raw.advice.get();
        let record = match advised >> advice::RECORD_SHIFT & advice::RECORD_MASK {
            0 => Record::Len,
            1 => Record::Place,
            2 => Record::Offset,
            _ => Record::WideOffset,
        };
        let high = u64::from(u16::from_le_bytes([raw.algorithms, raw.cluster_bits])) << 32;
        let records = behind.aligned_to(record.len());
        Ok(Self {
            map: behind,
            records: records.ok_or(Defect::Address.at(behind))?,
            record,
            cluster_bits,
            count: high | u64::from(raw.detail.get()),
            is_interlaced: advised & advice::INTERLACED != 0,
            has_fragment: advised & advice::FRAGMENT != 0,
        })
    }

    /// The extent that holds byte `offset` of a content of `size` bytes, which has more.
    pub(crate) fn extent(&self, image: &Image, size: u64, offset: u64) -> Result<Extent, Error> {
        let (start, end, is_last, stored) = match self.record {
            Record::Len | Record::Place => {
                let number = self.number_of(offset);
                let len = 1_u64.checked_shl(self.cluster_bits).unwrap_or(u64::MAX);
                let start = number.saturating_mul(len);
                let end = start.saturating_add(len);
                let stored = match self.record {
                    Record::Len => self.accumulated(image, size, number)?,
                    _ => self.placed(image, number)?,
                };
                (start, end.min(size), end >= size, stored)
            }
            Record::Offset | Record::WideOffset => {
                let found = self.search(image, size, offset)?;
                let is_last = found.number.saturating_add(1) >= self.count;
                (found.listed.start, found.end, is_last, found.listed.stored)
            }
        };
        let data = self.data(image, stored, is_last)?;
        Ok(Extent { start, end, data })
    }

    /// Where the records begin and end that are for a part of a content of `size` bytes.
    pub(crate) fn records_of(
        &self,
        image: &Image,
        size: u64,
        part: &Range<u64>,
    ) -> Result<(Address, Address), Error> {
        let last = part.end.saturating_sub(1);
        let (first, last) = match self.record {
            // Those in front say where the data is.
            Record::Len => (0, self.number_of(last)),
            Record::Place => (self.number_of(part.start), self.number_of(last)),
            // All, whether they are readable or not.
            _ if *part == (0..size) => (0, self.count.saturating_sub(1)),
            _ => {
                let found = |offset| Ok::<_, Error>(self.search(image, size, offset)?.number);
                (found(part.start)?, found(last)?)
            }
        };
        let start = match first {
            0 => self.records,
            first => self.record_at(first)?,
        };
        Ok((start, self.record_at(last.saturating_add(1))?))
    }

    fn data(&self, image: &Image, stored: Stored, is_last: bool) -> Result<Data, Error> {
        if is_last && self.has_fragment {
            let high = if self.record == Record::Len {
                0
            } else {
                stored.at << 32
            };
            return Ok(Data::Fragment(high | u64::from(stored.len)));
        }
        let len = u64::from(stored.len & extent_len::MASK);
        if len == 0 {
            return Ok(Data::Hole);
        }
        let block_size = image.superblock.block_size;
        let is_in_blocks = block_size.offset_in_block(stored.at | len) == 0;
        let coding = match (stored.len >> extent_len::ALGORITHM_SHIFT).checked_sub(1) {
            None if self.is_interlaced && is_in_blocks => Coding::Interlaced,
            None => Coding::Shifted,
            Some(number) => {
                let number = u8::try_from(number).unwrap_or(u8::MAX);
                let algorithm = Algorithm::new(number, image.superblock.algorithms);
                Coding::Compressed(algorithm.map_err(|defect| defect.at(self.map))?)
            }
        };
        let at = Location::Image(stored.at);
        Ok(Data::Cluster { at, len, coding })
    }

    /// The extent with this number in the list of a content of `size` bytes. Its data is behind that of all before.
    fn accumulated(&self, image: &Image, size: u64, number: u64) -> Result<Stored, Error> {
        let first: U64 = image.structure(self.records)?;
        let extents = self.number_of(size.saturating_sub(1)).saturating_add(1);
        let before = image.sums.before(self.records, extents, number, |part| {
            self.total_len(image, part)
        })?;
        image.work.add_records(1);
        let len: U32 = image.structure(self.record_at(number)?)?;
        Ok(Stored {
            len: len.get(),
            at: first.get().saturating_add(before),
        })
    }

    /// How many bytes the data of these extents has.
    fn total_len(&self, image: &Image, part: Range<u64>) -> Result<u64, Error> {
        let count = part.end.saturating_sub(part.start);
        image.work.add_records(count);
        let len = count.saturating_mul(self.record.len());
        let bytes = image.bytes(self.record_at(part.start)?, to_usize(len))?;
        let lens = <[U32]>::ref_from_bytes(&bytes).unwrap_or_default();
        Ok(lens.iter().fold(0_u64, |total, len| {
            total.saturating_add(u64::from(len.get() & extent_len::MASK))
        }))
    }

    /// The extent with this number, with the place of its data.
    fn placed(&self, image: &Image, number: u64) -> Result<Stored, Error> {
        image.work.add_records(1);
        let [len, at]: [U32; 2] = image.structure(self.record_at(number)?)?;
        Ok(Stored {
            len: len.get(),
            at: at.get().into(),
        })
    }

    /// The last extent that begins no later than `offset`.
    fn search(&self, image: &Image, size: u64, offset: u64) -> Result<Found, Error> {
        let (mut low, mut high) = (0, self.count);
        let mut found = None;
        let mut end = size;
        while low < high {
            let number = low.midpoint(high);
            let listed = self.listed(image, number)?;
            if listed.start <= offset {
                low = number.saturating_add(1);
                found = Some((number, listed));
            } else {
                high = number;
                end = listed.start;
            }
        }
        let found = found.filter(|_| end <= size);
        let (number, listed) = found.ok_or(Defect::ClusterMap.at(self.map))?;
        Ok(Found {
            number,
            listed,
            end,
        })
    }

    fn listed(&self, image: &Image, number: u64) -> Result<Listed, Error> {
        image.work.add_records(1);
        let address = self.record_at(number)?;
        let [len, low, high, start]: [U32; 4] = image.structure(address)?;
        let mut start = u64::from(start.get());
        if self.record == Record::WideOffset {
            let upper = address.plus(16).ok_or(Defect::Address.at(self.map))?;
            let upper: U32 = image.structure(upper)?;
            start |= u64::from(upper.get()) << 32;
        }
        let at = u64::from(high.get()) << 32 | u64::from(low.get());
        let len = len.get();
        let stored = Stored { len, at };
        Ok(Listed { start, stored })
    }

    /// The number of the extent that holds a byte, with short records.
    fn number_of(&self, offset: u64) -> u64 {
        offset.checked_shr(self.cluster_bits).unwrap_or_default()
    }

    fn record_at(&self, number: u64) -> Result<Address, Error> {
        let base = if self.record == Record::Len { 8 } else { 0 };
        let at = number.checked_mul(self.record.len());
        let at = at.and_then(|at| self.records.plus(at)?.plus(base));
        at.ok_or(Defect::Address.at(self.map).into())
    }
}
