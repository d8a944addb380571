//! The superblock: a volume's parameters and state.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use std::num::NonZeroU32;

use verimount_source::ReadAt;
use zerocopy::{FromBytes, IntoBytes};

use crate::{
    BlockSize, Corruption, DiskSize, Error, Interleave, Padding, SECTOR, TagSize, Unsupported,
    geometry::Geometry,
    mac::Mac,
    raw::{self, Flags, SUPERBLOCK_SIZE},
};

/// Hashed before every block and before the input of a MAC, so that equal data on two volumes has
/// different tags.
pub(crate) type Salt = [u8; 16];

/// An invalid number of blocks per bit: marks the bitmap as absent.
const NO_BITMAP: u8 = u8::MAX;

/// The contents of a volume's superblock. Algorithm, key and mode are not stored in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Superblock {
    /// The layout parameters that the volume was formatted with.
    pub shape: Shape,
    /// The number of data sectors, of 512 bytes each, that the volume provides.
    pub provided_data_sectors: u64,
    /// The salt; only volumes with the HMAC fix have one.
    pub(crate) salt: Option<Salt>,
    /// The first sector whose tag may be wrong because it has not been recalculated.
    pub(crate) recalculation: Option<u64>,
    /// Whether the volume is open in bitmap mode, or was when the machine crashed: the journal area holds a bitmap of the regions
    /// that were being written.
    pub dirty_bitmap: bool,
    /// The base-2 logarithm of the blocks per bit of the bitmap.
    pub(crate) log2_blocks_per_bitmap_bit: u8,
}

/// The parameters that, with the size of the devices, determine the layout of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// The size of a block; each block has one tag.
    pub block_size: BlockSize,
    /// The size of a tag.
    pub tag_size: TagSize,
    /// The number of data sectors between two runs of tags; `None` with a separate data device.
    pub interleave: Option<Interleave>,
    /// The padding of each area's tags.
    pub padding: Padding,
    /// The number of journal sections.
    pub journal_sections: NonZeroU32,
    /// Whether a MAC, which needs a key, protects the journal.
    pub journal_mac: bool,
}

/// Reads the first sector of the volume on `device`.
pub(crate) fn read_sector(device: &(impl ReadAt + ?Sized)) -> Result<[u8; raw::SECTOR], Error> {
    if device.size() < SECTOR {
        return Err(Error::TooSmall { available: 0 });
    }
    let mut sector = [0; raw::SECTOR];
    device.read_exact_at(&mut sector, 0)?;
    Ok(sector)
}

impl Superblock {
    /// Reads the superblock of the volume on `device`. No key is needed, as a MAC is not checked.
    ///
    /// # Errors
    /// [`Error::NotIntegrity`], [`Error::Corrupt`], [`Error::Unsupported`], [`Error::TooSmall`] or
    /// [`Error::Source`].
    pub fn read(device: &(impl ReadAt + ?Sized)) -> Result<Self, Error> {
        Self::parse(&read_sector(device)?)
    }

    /// The size in bytes of the smallest device with room for a disk of `disk`, if the volume has a
    /// single device.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn storage_needed(&self, disk: DiskSize) -> Result<u64, Error> {
        let geometry = Geometry::sized(self.shape, disk.sectors())?;
        Ok(geometry.storage_needed())
    }

    /// Parses and validates the first sector of a volume, except for its MAC.
    pub(crate) fn parse(sector: &[u8]) -> Result<Self, Error> {
        let (raw, _) = raw::Superblock::ref_from_prefix(sector).map_err(|_| Error::NotIntegrity)?;
        if raw.magic != raw::MAGIC {
            return Err(Error::NotIntegrity);
        }
        let flags = Flags::from_bits_retain(raw.flags.get());
        if raw.version == 6 || flags.contains(Flags::INLINE) {
            return Err(Unsupported::Inline.into());
        }
        if !(1..=5).contains(&raw.version) {
            return Err(Unsupported::Version(raw.version).into());
        }
        let unknown = flags.difference(Flags::all());
        if !unknown.is_empty() {
            return Err(Unsupported::Flags(unknown.bits()).into());
        }
        let shape = Shape::parse(raw, flags)?;
        let provided_data_sectors = raw.provided_data_sectors.get();
        if provided_data_sectors == 0
            || !provided_data_sectors.is_multiple_of(shape.block_size.sectors())
        {
            return Err(Corruption::ProvidedDataSectors(provided_data_sectors).into());
        }
        Ok(Self {
            shape,
            provided_data_sectors,
            salt: flags.contains(Flags::FIXED_HMAC).then_some(raw.salt),
            recalculation: flags
                .contains(Flags::RECALCULATING)
                .then_some(raw.recalculation_sector.get()),
            dirty_bitmap: flags.contains(Flags::DIRTY_BITMAP),
            log2_blocks_per_bitmap_bit: raw.log2_blocks_per_bitmap_bit,
        })
    }

    /// The on-disk form of the superblock, with a MAC if `mac` is given and the volume has the HMAC
    /// fix.
    pub(crate) fn encode(&self, mac: Option<&Mac>) -> [u8; SUPERBLOCK_SIZE] {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        let raw = raw::Superblock {
            magic: raw::MAGIC,
            version: self.version(),
            log2_interleave_sectors: self.shape.interleave.map_or(0, Interleave::log2_sectors),
            tag_size: self.shape.tag_size.get().into(),
            journal_sections: self.shape.journal_sections.get().into(),
            provided_data_sectors: self.provided_data_sectors.into(),
            flags: self.flags().bits().into(),
            log2_sectors_per_block: self.shape.block_size.log2_sectors(),
            log2_blocks_per_bitmap_bit: self.log2_blocks_per_bitmap_bit,
            reserved: [0; 2],
            recalculation_sector: self.recalculation.unwrap_or(0).into(),
            reserved2: [0; 8],
            salt: self.salt.unwrap_or_default(),
        };
        // The array is longer than the structure.
        let _ = raw.write_to_prefix(&mut bytes);
        if let (Some(mac), Some(_), Some(sector)) =
            (mac, self.salt, bytes.first_chunk_mut::<{ raw::SECTOR }>())
        {
            mac.seal_superblock(sector);
        }
        bytes
    }

    /// The lowest version of the format that has all features the volume uses, so that older
    /// kernels can tell whether they support it.
    pub fn version(&self) -> u8 {
        if self.salt.is_some() {
            5
        } else if self.shape.padding == Padding::Fixed {
            4
        } else if self.dirty_bitmap {
            3
        } else if self.shape.interleave.is_none() || self.recalculation.is_some() {
            2
        } else {
            1
        }
    }

    /// Whether the volume has the HMAC fix: blocks are hashed with a salt, and MACs also cover
    /// positions and the superblock.
    pub fn has_hmac_fix(&self) -> bool {
        self.salt.is_some()
    }

    /// The first sector whose tag may be wrong because it has not been recalculated.
    pub fn recalculation_sector(&self) -> Option<u64> {
        self.recalculation
            .filter(|&sector| sector < self.provided_data_sectors)
    }

    /// Marks the bitmap as absent, so that all regions count as dirty.
    pub(crate) fn forget_bitmap(&mut self) {
        self.log2_blocks_per_bitmap_bit = NO_BITMAP;
    }

    /// This volume, with a disk of so many sectors.
    pub(crate) fn of_size(self, provided_data_sectors: u64) -> Self {
        Self {
            provided_data_sectors,
            ..self
        }
    }

    fn flags(&self) -> Flags {
        let mut flags = Flags::empty();
        let has_fixed_padding = self.shape.padding == Padding::Fixed;
        flags.set(Flags::JOURNAL_MAC, self.shape.journal_mac);
        flags.set(Flags::RECALCULATING, self.recalculation.is_some());
        flags.set(Flags::DIRTY_BITMAP, self.dirty_bitmap);
        flags.set(Flags::FIXED_PADDING, has_fixed_padding);
        flags.set(Flags::FIXED_HMAC, self.salt.is_some());
        flags
    }
}

impl Shape {
    fn parse(raw: &raw::Superblock, flags: Flags) -> Result<Self, Error> {
        let log2_block = raw.log2_sectors_per_block;
        let block_size = BlockSize::from_log2_sectors(log2_block)
            .ok_or(Corruption::SectorsPerBlock(log2_block))?;
        let tag_size = raw.tag_size.get();
        let log2_interleave = raw.log2_interleave_sectors;
        let interleave = match log2_interleave {
            0 => None,
            log2 => Some(
                Interleave::from_log2_sectors(log2)
                    .map_err(|_| Corruption::Interleave(log2_interleave))?,
            ),
        };
        let padding = if flags.contains(Flags::FIXED_PADDING) {
            Padding::Fixed
        } else {
            Padding::Legacy
        };
        Ok(Self {
            block_size,
            tag_size: TagSize::new(tag_size).map_err(|_| Corruption::TagSize(tag_size))?,
            interleave,
            padding,
            journal_sections: NonZeroU32::new(raw.journal_sections.get())
                .ok_or(Corruption::NoJournal)?,
            journal_mac: flags.contains(Flags::JOURNAL_MAC),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use arbtest::arbtest;

    use super::*;

    /// As the current `integritysetup` makes it, except for the salt.
    pub(crate) fn superblock() -> Superblock {
        Superblock {
            shape: Shape {
                block_size: BlockSize::DEFAULT,
                tag_size: TagSize::new(4).unwrap(),
                interleave: Some(Interleave::DEFAULT),
                padding: Padding::Fixed,
                journal_sections: NonZeroU32::new(2).unwrap(),
                journal_mac: false,
            },
            provided_data_sectors: 65_072,
            salt: Some([7; 16]),
            recalculation: None,
            dirty_bitmap: false,
            log2_blocks_per_bitmap_bit: 12,
        }
    }

    #[test]
    fn every_field_is_where_the_format_has_it() {
        let mut expected = [0; SUPERBLOCK_SIZE];
        expected[..8].copy_from_slice(b"integrt\0");
        expected[8..16].copy_from_slice(&[5, 15, 4, 0, 2, 0, 0, 0]);
        expected[16..24].copy_from_slice(&65_072_u64.to_le_bytes());
        expected[24..32].copy_from_slice(&[0x18, 0, 0, 0, 3, 12, 0, 0]);
        expected[48..64].copy_from_slice(&[7; 16]);
        assert_eq!(superblock().encode(None), expected);
    }

    #[test]
    fn the_version_is_the_lowest_that_has_what_is_used() {
        let mut superblock = superblock();
        assert_eq!(superblock.version(), 5);
        superblock.salt = None;
        assert_eq!(superblock.version(), 4);
        superblock.shape.padding = Padding::Legacy;
        assert_eq!(superblock.version(), 1);
        superblock.recalculation = Some(0);
        assert_eq!(superblock.version(), 2);
        superblock.dirty_bitmap = true;
        assert_eq!(superblock.version(), 3);
        superblock.dirty_bitmap = false;
        superblock.recalculation = None;
        superblock.shape.interleave = None;
        assert_eq!(superblock.version(), 2);
    }

    #[test]
    fn invalid_superblocks_are_refused() {
        let refused = |at: usize, bytes: &[u8]| {
            let mut sector = superblock().encode(None);
            sector[at..at + bytes.len()].copy_from_slice(bytes);
            Superblock::parse(&sector[..512]).unwrap_err()
        };
        assert!(matches!(refused(0, b"X"), Error::NotIntegrity));
        for (at, byte) in [(8, 6), (24, 0x38)] {
            let error = refused(at, &[byte]);
            assert!(matches!(error, Error::Unsupported(Unsupported::Inline)));
        }
        for (at, byte) in [(8, 0), (8, 7), (25, 1)] {
            assert!(matches!(refused(at, &[byte]), Error::Unsupported(_)));
        }
        for (at, bytes) in [
            (9, &[1][..]),
            (9, &[32]),
            (10, &[0, 0]),
            (10, &[0xa9, 1]),
            (12, &[0]),
            (16, &[0x31]),
            (16, &[0; 8]),
            (28, &[4]),
        ] {
            assert!(matches!(refused(at, bytes), Error::Corrupt(_)), "{at}");
        }
        assert!(matches!(Superblock::parse(&[]), Err(Error::NotIntegrity)));
    }

    #[test]
    fn accepted_superblocks_round_trip() {
        arbtest(|u| {
            let mut bytes = superblock().encode(None);
            // Arbitrary values, limited so that enough of them are accepted.
            bytes[9] = u.int_in_range(0..=39)?;
            bytes[10..16].copy_from_slice(&[u.arbitrary()?, 0, u.arbitrary()?, 0, 0, 0]);
            let blocks: u64 = u.int_in_range(0..=99)?;
            bytes[16..24].copy_from_slice(&(blocks * 8).to_le_bytes());
            bytes[24] = u.int_in_range(0..=0x1f)?;
            bytes[28] = u.int_in_range(0..=4)?;
            u.fill_buffer(&mut bytes[48..64])?;
            if let Ok(parsed) = Superblock::parse(&bytes[..512]) {
                let again = Superblock::parse(&parsed.encode(None)[..512]).unwrap();
                assert_eq!(again, parsed);
            }
            Ok(())
        })
        .size_max(32);
    }

    #[test]
    fn any_bytes_are_refused_or_accepted() {
        arbtest(|u| {
            let mut sector: [u8; 64] = u.arbitrary()?;
            let _ = Superblock::parse(&sector);
            sector[..8].copy_from_slice(&raw::MAGIC);
            let _ = Superblock::parse(&sector);
            Ok(())
        })
        .size_max(64);
    }
}
