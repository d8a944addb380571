use std::ops::Range;

use crate::{
    Corruption, Error,
    compressed::{
        compact_index::{Pack, Packs},
        extent::{Coding, Data, Extent, Location, MAX_EXTENT},
        full_index,
        record::{Head, HeadKind, Record},
    },
    decode::Algorithm,
    error::Defect,
    image::Image,
    numbers::to_usize,
    raw::advice,
    space::Address,
};

/// How many records may lead from a logical cluster to the beginning of its extent, and how many from there to the next one.
///
/// Every record tells how far the beginning is, up to 2047 logical clusters; 13 of them lead through the longest extent in the
/// smallest. In a compact index only the last of the up to sixteen records of a pack tells how far the next beginning is. Of
/// blocks of 4 KiB, which have such packs, this takes less than 64 records. `mkfs.erofs` before 1.0 told it nowhere, and its
/// longest extents have 255 logical clusters, as a block of LZ4 holds no more.
const MAX_HOPS: u64 = 256;

/// The form of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// 8 bytes for each logical cluster.
    Full,
    /// Packs.
    Compact,
}

/// How the last extent of a file is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Last {
    /// As all others.
    Cluster,
    /// In the packed inode, from this offset on; a full index has the upper half of it.
    Fragment(u32),
    /// Behind the last logical cluster's record.
    Inline {
        /// The length of the cluster in bytes; if it is 0, the last extent is as all others.
        len: u32,
    },
}

/// A file's index.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) form: Form,
    pub(crate) header: Address,
    /// The end of the header.
    pub(crate) behind: Address,
    /// The base-2 logarithm of the size of logical clusters.
    pub(crate) cluster_bits: u32,
    /// The base-2 logarithm of the block size.
    pub(crate) block_bits: u32,
    /// A compact index has long packs.
    pub(crate) has_two_byte_records: bool,
    pub(crate) first: Result<Algorithm, Defect>,
    pub(crate) second: Result<Algorithm, Defect>,
    pub(crate) is_first_big: bool,
    pub(crate) is_second_big: bool,
    pub(crate) is_interlaced: bool,
    pub(crate) last: Last,
}

/// A head, and the number of its logical cluster.
struct Beginning {
    number: u64,
    head: Head,
}

impl Form {
    /// The base-2 logarithm of the largest logical clusters.
    pub(crate) fn max_cluster_bits(self, advised: u16) -> u32 {
        match self {
            // An offset in one has 16 bits.
            Self::Full => 16,
            Self::Compact if advised & advice::TWO_BYTES != 0 => 12,
            Self::Compact => 14,
        }
    }
}

impl Index {
    /// The extent that holds byte `offset` of a content of `size` bytes, which has more.
    pub(crate) fn extent(&self, image: &Image, size: u64, offset: u64) -> Result<Extent, Error> {
        let number = self.number_of(offset);
        let record = self.record(image, size, number)?;
        let (beginning, end) = match record {
            Record::Head(head) if self.start_of(number, &head) <= offset => {
                (Beginning { number, head }, None)
            }
            Record::Head(head) => {
                let before = number.checked_sub(1).ok_or(self.contradiction())?;
                let beginning = self.beginning(image, size, before)?;
                (beginning, Some(self.start_of(number, &head)))
            }
            Record::Following { .. } => (self.beginning(image, size, number)?, None),
        };
        let start = self.start_of(beginning.number, &beginning.head);
        let next = match end {
            Some(end) => Some(end),
            None => self.next_start(image, size, number.saturating_add(1), start)?,
        };
        let end = next.filter(|next| *next < size);
        let data = self.data(image, size, &beginning, end.is_none())?;
        let end = end.unwrap_or(size);
        Ok(Extent { start, end, data })
    }

    /// Where the records begin and end that are for a part of a content of `size` bytes.
    pub(crate) fn records_of(
        &self,
        size: u64,
        part: &Range<u64>,
    ) -> Result<(Address, Address), Error> {
        let first = self.number_of(part.start);
        let last = self.number_of(part.end.saturating_sub(1));
        Ok((
            self.start_of_record(size, first)?,
            self.end_of_record(size, last)?,
        ))
    }

    /// Where the extent begins that a logical cluster belongs to.
    fn beginning(&self, image: &Image, size: u64, number: u64) -> Result<Beginning, Error> {
        let mut number = number;
        let mut left = self.max_steps();
        for _ in 0..MAX_HOPS {
            match self.record(image, size, number)? {
                Record::Head(head) => return Ok(Beginning { number, head }),
                Record::Following { back, .. } => {
                    let before = number.checked_sub(back).filter(|before| *before < number);
                    number = before.ok_or(self.contradiction())?;
                    left = left.checked_sub(back).ok_or(self.too_long())?;
                }
            }
        }
        Err(self.too_many_hops().into())
    }

    /// Where the next extent begins that does so in this logical cluster or behind; `None` if there is none. The one in
    /// front of it begins at `start`.
    fn next_start(
        &self,
        image: &Image,
        size: u64,
        number: u64,
        start: u64,
    ) -> Result<Option<u64>, Error> {
        let mut number = number;
        let most = self.number_of(start).saturating_add(self.max_steps());
        for _ in 0..MAX_HOPS {
            if self.start(number) >= size {
                return Ok(None);
            }
            match self.record(image, size, number)? {
                Record::Head(head) => return Ok(Some(self.start_of(number, &head))),
                Record::Following { forward, .. } => number = number.saturating_add(forward),
            }
            if number > most {
                return Err(self.too_long().into());
            }
        }
        Err(self.too_many_hops().into())
    }

    /// The data of an extent, which may be the last one of the file.
    fn data(
        &self,
        image: &Image,
        size: u64,
        beginning: &Beginning,
        is_last: bool,
    ) -> Result<Data, Error> {
        let head = &beginning.head;
        let at = match self.last {
            Last::Fragment(low) if is_last => {
                let high = if self.form == Form::Full {
                    head.block << 32
                } else {
                    0
                };
                return Ok(Data::Fragment(high | u64::from(low)));
            }
            Last::Inline { len: 1.. } if is_last => {
                let number = self.number_of(size.saturating_sub(1));
                Location::Metadata(self.end_of_record(size, number)?)
            }
            _ => {
                let at = image.superblock.block_size.start_of(head.block);
                Location::Image(at.ok_or(Defect::Address.at(self.header))?)
            }
        };
        let len = match (at, self.last) {
            (Location::Metadata(_), Last::Inline { len }) => len.into(),
            _ => {
                let blocks = self.blocks(image, size, beginning)?;
                image
                    .superblock
                    .block_size
                    .start_of(blocks)
                    .unwrap_or(u64::MAX)
            }
        };
        let is_in_image = matches!(at, Location::Image(_));
        let coding = match head.kind {
            HeadKind::Plain if self.is_interlaced && is_in_image => Coding::Interlaced,
            HeadKind::Plain => Coding::Shifted,
            HeadKind::First => Coding::Compressed(self.algorithm(self.first)?),
            HeadKind::Second => Coding::Compressed(self.algorithm(self.second)?),
        };
        Ok(Data::Cluster { at, len, coding })
    }

    /// How many blocks an extent's data has. Where there may be several, the logical cluster behind the beginning tells.
    fn blocks(&self, image: &Image, size: u64, beginning: &Beginning) -> Result<u64, Error> {
        let is_big = match beginning.head.kind {
            HeadKind::First => self.is_first_big,
            HeadKind::Plain | HeadKind::Second => self.is_second_big,
        };
        let next = beginning.number.saturating_add(1);
        if !is_big || self.start(next) >= size {
            return Ok(1);
        }
        match self.record(image, size, next)? {
            Record::Head(_) => Ok(1),
            Record::Following { blocks, .. } => Ok(blocks.ok_or(self.contradiction())?),
        }
    }

    fn record(&self, image: &Image, size: u64, number: u64) -> Result<Record, Error> {
        image.work.add_records(1);
        let record = match self.form {
            Form::Full => full_index::record(&image.structure(self.full_record(number)?)?),
            Form::Compact => {
                let place = self.packs(size).place(number);
                let place = place.ok_or(Defect::Address.at(self.header))?;
                let bytes = image.bytes(place.pack, to_usize(place.kind.len))?;
                let pack = Pack {
                    bytes: &bytes,
                    kind: place.kind,
                    cluster_bits: self.cluster_bits,
                    is_big: self.is_first_big,
                };
                pack.record(place.position)
                    .map_err(|defect| defect.at(self.header))?
            }
        };
        let is_big = self.is_first_big || self.is_second_big;
        match record {
            Record::Head(head) if head.offset >= self.start(1) => Err(self.contradiction().into()),
            Record::Following {
                blocks: Some(_), ..
            } if !is_big => Err(self.contradiction().into()),
            record => Ok(record),
        }
    }

    /// Where the record of a logical cluster of a full index is.
    fn full_record(&self, number: u64) -> Result<Address, Error> {
        let at = number.checked_mul(full_index::RECORD);
        let at = at.and_then(|at| at.checked_add(full_index::PADDING));
        let at = at.and_then(|at| self.behind.plus(at));
        at.ok_or(Defect::Address.at(self.header).into())
    }

    /// Where a record begins, or the pack that it is in.
    fn start_of_record(&self, size: u64, number: u64) -> Result<Address, Error> {
        match self.form {
            Form::Full => self.full_record(number),
            Form::Compact => {
                let place = self.packs(size).place(number);
                Ok(place.ok_or(Defect::Address.at(self.header))?.pack)
            }
        }
    }

    /// Where a record ends, or the pack that it is in.
    fn end_of_record(&self, size: u64, number: u64) -> Result<Address, Error> {
        let end = match self.form {
            Form::Full => self.full_record(number)?.plus(full_index::RECORD),
            Form::Compact => {
                let place = self.packs(size).place(number);
                place.and_then(|place| place.pack.plus(place.kind.len))
            }
        };
        end.ok_or(Defect::Address.at(self.header).into())
    }

    fn packs(&self, size: u64) -> Packs {
        let block_size = 1_u64.checked_shl(self.block_bits).unwrap_or(u64::MAX);
        Packs::new(
            self.behind,
            size.div_ceil(block_size),
            self.has_two_byte_records,
        )
    }

    /// The number of the logical cluster that holds a byte.
    fn number_of(&self, offset: u64) -> u64 {
        offset.checked_shr(self.cluster_bits).unwrap_or_default()
    }

    /// Where a logical cluster begins.
    fn start(&self, number: u64) -> u64 {
        let size = 1_u64.checked_shl(self.cluster_bits).unwrap_or(u64::MAX);
        number.saturating_mul(size)
    }

    fn start_of(&self, number: u64, head: &Head) -> u64 {
        self.start(number).saturating_add(head.offset)
    }

    /// How many logical clusters an extent may have.
    fn max_steps(&self) -> u64 {
        self.number_of(MAX_EXTENT).saturating_add(2)
    }

    fn algorithm(&self, algorithm: Result<Algorithm, Defect>) -> Result<Algorithm, Error> {
        Ok(algorithm.map_err(|defect| defect.at(self.header))?)
    }

    fn contradiction(&self) -> Corruption {
        Defect::ClusterMap.at(self.header)
    }

    fn too_many_hops(&self) -> Corruption {
        Defect::ClusterHops.at(self.header)
    }

    fn too_long(&self) -> Corruption {
        Defect::ClusterLen.at(self.header)
    }
}
