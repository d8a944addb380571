use std::ops::Range;

use crate::{
    Error, Unsupported,
    compressed::{
        extent::{Data, Extent},
        extent_list::ExtentList,
        index::{Form, Index, Last},
    },
    decode::Algorithm,
    error::Defect,
    image::Image,
    raw::{self, advice},
    space::Address,
};

/// The bit of a header that says that all of the file is a fragment, whose offset is the rest.
const IS_FRAGMENT: u64 = 1 << 63;

/// The length of a header in bytes.
pub(crate) const HEADER_LEN: u64 = 8;

/// A file's map.
pub(crate) enum Map {
    /// All is in the packed inode, from this offset on.
    Fragment(u64),
    Extents(ExtentList),
    Index(Index),
}

impl Map {
    /// Reads the header of a map.
    pub(crate) fn read(image: &Image, form: Form, header: Address) -> Result<Self, Error> {
        let raw: raw::MapHeader = image.structure(header)?;
        if raw.cluster_bits & 0x80 != 0 {
            let word: zerocopy::little_endian::U64 = image.structure(header)?;
            return Ok(Self::Fragment(word.get() & !IS_FRAGMENT));
        }
        let advised = raw.advice.get();
        let has_extents = form == Form::Full && advised & advice::EXTENTS != 0;
        let behind = header.plus(HEADER_LEN).ok_or(Defect::Address.at(header))?;
        let block_bits = u32::from(image.superblock.block_size.bits());
        let cluster_bits = block_bits.saturating_add(u32::from(raw.cluster_bits & 15));
        if has_extents {
            return Ok(Self::Extents(ExtentList::new(&raw, behind, cluster_bits)?));
        }
        let last = match advised {
            bits if bits & advice::FRAGMENT != 0 => Last::Fragment(raw.detail.get()),
            bits if bits & advice::INLINE != 0 => Last::Inline {
                len: raw.detail.get() >> 16,
            },
            _ => Last::Cluster,
        };
        let max_bits = form.max_cluster_bits(advised);
        if cluster_bits > max_bits {
            let size = 1_u64.checked_shl(cluster_bits).unwrap_or(u64::MAX);
            return Err(Unsupported::ClusterSize(size).into());
        }
        let algorithm = |number: u8| Algorithm::new(number, image.superblock.algorithms);
        Ok(Self::Index(Index {
            form,
            header,
            behind,
            cluster_bits,
            block_bits,
            has_two_byte_records: form == Form::Compact && advised & advice::TWO_BYTES != 0,
            first: algorithm(raw.algorithms & 15),
            second: algorithm(raw.algorithms >> 4),
            is_first_big: advised & advice::BIG_FIRST != 0,
            is_second_big: advised & advice::BIG_SECOND != 0,
            is_interlaced: advised & advice::INTERLACED != 0,
            last,
        }))
    }

    /// Where the records begin and end that are for a part of a content of `size` bytes; `None` if there are none.
    pub(crate) fn records_of(
        &self,
        image: &Image,
        size: u64,
        part: &Range<u64>,
    ) -> Result<Option<(Address, Address)>, Error> {
        match self {
            Self::Fragment(_) => Ok(None),
            Self::Extents(list) => list.records_of(image, size, part).map(Some),
            Self::Index(index) => index.records_of(size, part).map(Some),
        }
    }

    /// The extent that holds byte `offset` of a content of `size` bytes, which has more.
    pub(crate) fn extent(&self, image: &Image, size: u64, offset: u64) -> Result<Extent, Error> {
        match self {
            Self::Fragment(at) => Ok(Extent {
                start: 0,
                end: size,
                data: Data::Fragment(*at),
            }),
            Self::Extents(list) => list.extent(image, size, offset),
            Self::Index(index) => index.extent(image, size, offset),
        }
    }
}
