//! The on-disk layout. Positions are in sectors of 512 bytes unless stated otherwise.

use std::{num::NonZeroU32, ops::Range};

use crate::{
    DiskSize, Error, Interleave, SECTOR, Unsupported,
    journal::JournalLayout,
    superblock::{Shape, Superblock},
};

/// The size of the superblock in sectors.
const SUPERBLOCK_SECTORS: u64 = 8;

/// The minimum number of sectors after the journal, and the smallest padding of an area's tags.
const METADATA_PADDING: u64 = 8;

/// The base-2 logarithm of the kernel's largest metadata buffer, in sectors. With a separate data
/// device, the kernel requires the tags, padded to a whole buffer, to fit on the metadata device.
const LOG2_MAX_BUFFER: u8 = 7;

/// The base-2 logarithm of the kernel's smallest metadata buffer, in sectors.
const LOG2_MIN_BUFFER: u8 = 3;

/// The largest default journal size in sectors: 64 MiB.
const MAX_DEFAULT_JOURNAL: u64 = 131_072;

/// The base-2 logarithm of the default ratio of data size to journal size.
const LOG2_JOURNAL_PART: u8 = 7;

/// The sizes of a volume's devices, in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorageSize {
    /// The device with the superblock, the journal and the tags.
    pub(crate) metadata: u64,
    /// The device with the data; the same if there is only one device.
    pub(crate) data: u64,
}

impl StorageSize {
    fn too_small(self) -> Error {
        let available = self.metadata.min(self.data);
        Error::TooSmall { available }
    }
}

/// The position of every sector and tag of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) shape: Shape,
    pub(crate) journal: JournalLayout,
    /// Sectors from the beginning to the first area.
    initial: u64,
    /// Sectors that one area's tags take, with padding.
    run: u64,
    pub(crate) provided_data_sectors: u64,
}

/// A range of the volume's sectors that is contiguous on the data device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first of the volume's sectors.
    pub(crate) sector: u64,
    /// Its position on the data device.
    pub(crate) position: u64,
    /// The number of sectors.
    pub(crate) sectors: u64,
}

impl Geometry {
    /// The geometry of the volume that `superblock` describes; fails if it does not fit on its
    /// devices.
    pub(crate) fn of(superblock: &Superblock, size: StorageSize) -> Result<Self, Error> {
        Self::sized(superblock.shape, superblock.provided_data_sectors)?.fitting(size)
    }

    /// The geometry of a volume of `shape` whose disk is as large as asked for, or else as large as
    /// the devices allow.
    pub(crate) fn wanted(
        shape: Shape,
        disk: Option<DiskSize>,
        size: StorageSize,
    ) -> Result<Self, Error> {
        let Some(disk) = disk else {
            return Self::largest(shape, size);
        };
        let geometry = Self::sized(shape, disk.sectors())?;
        if geometry.fits(size, LOG2_MIN_BUFFER) {
            Ok(geometry)
        } else {
            Err(Error::DiskTooLarge {
                largest: Self::largest(shape, size)?.size(),
            })
        }
    }

    /// The geometry of the largest volume of `shape` that fits on the devices.
    pub(crate) fn largest(shape: Shape, size: StorageSize) -> Result<Self, Error> {
        let mut geometry = Self::without_data(shape)?;
        match shape.interleave {
            Some(_) => {
                for bit in (3..u64::BITS).rev() {
                    let smaller = geometry.provided_data_sectors;
                    geometry.provided_data_sectors |= 1 << bit;
                    if !geometry.fits(size, LOG2_MIN_BUFFER) {
                        geometry.provided_data_sectors = smaller;
                    }
                }
            }
            None => {
                let blocks = size.data >> shape.block_size.log2_sectors();
                geometry.provided_data_sectors = blocks << shape.block_size.log2_sectors();
            }
        }
        geometry.fitting(size)
    }

    /// Fails if the volume is empty, or does not fit on its devices.
    fn fitting(self, size: StorageSize) -> Result<Self, Error> {
        if self.provided_data_sectors > 0 && self.fits(size, LOG2_MIN_BUFFER) {
            Ok(self)
        } else {
            Err(size.too_small())
        }
    }

    /// The number of journal sections of a new volume, chosen as the kernel does: for a journal of
    /// `sectors` sectors, or else a fraction of the data size. With a separate data device, the
    /// journal gets at most the space that the tags leave. `shape.journal_sections` is ignored.
    pub(crate) fn journal_sections(
        shape: Shape,
        sectors: Option<u64>,
        size: StorageSize,
    ) -> Result<NonZeroU32, Error> {
        let default = || (size.data >> LOG2_JOURNAL_PART).min(MAX_DEFAULT_JOURNAL);
        let wanted = JournalLayout::new(&shape).sections(sectors.unwrap_or_else(default));
        if shape.interleave.is_some() {
            return Ok(wanted);
        }
        let fits = |journal_sections, log2_buffer| {
            let shape = Shape {
                journal_sections,
                ..shape
            };
            let geometry = Self::largest(shape, size);
            geometry.is_ok_and(|geometry| geometry.fits(size, log2_buffer))
        };
        (LOG2_MIN_BUFFER..=LOG2_MAX_BUFFER)
            .rev()
            .find_map(|log2_buffer| {
                (0..u32::BITS).rev().fold(None, |most, bit| {
                    let more = most.map_or(0, NonZeroU32::get) | (1 << bit);
                    let more = NonZeroU32::new(more).filter(|&more| more <= wanted);
                    more.filter(|&more| fits(more, log2_buffer)).or(most)
                })
            })
            .ok_or(size.too_small())
    }

    /// The geometry of a volume of this size, whether or not it fits on any device.
    pub(crate) fn sized(shape: Shape, sectors: u64) -> Result<Self, Error> {
        Ok(Self {
            provided_data_sectors: sectors,
            ..Self::without_data(shape)?
        })
    }

    fn without_data(shape: Shape) -> Result<Self, Error> {
        let journal = JournalLayout::new(&shape);
        let journal_sectors = journal.section_sectors() * u64::from(shape.journal_sections.get());
        if SUPERBLOCK_SECTORS + journal_sectors > u32::MAX.into() {
            return Err(Unsupported::JournalSize(journal_sectors).into());
        }
        let run = match shape.interleave {
            Some(interleave) => {
                let padding = shape.padding.bytes();
                if padding / SECTOR > METADATA_PADDING && interleave.log2_sectors() < 7 {
                    return Err(Unsupported::NarrowLegacy.into());
                }
                let log2_blocks = interleave.log2_sectors() - shape.block_size.log2_sectors();
                let tags = u64::from(shape.tag_size.get()) << log2_blocks;
                tags.next_multiple_of(padding) / SECTOR
            }
            None => 0,
        };
        Ok(Self {
            shape,
            journal,
            initial: SUPERBLOCK_SECTORS + journal_sectors,
            run,
            provided_data_sectors: 0,
        })
    }

    /// Whether the volume fits on its devices. If it does, no position computed below can overflow.
    fn fits(&self, size: StorageSize, log2_buffer: u8) -> bool {
        let has_room = self.metadata_needed(log2_buffer) <= size.metadata.into();
        let is_interleaved = self.shape.interleave.is_some();
        has_room && (is_interleaved || self.provided_data_sectors <= size.data)
    }

    /// The number of sectors that the volume needs on the metadata device, on which also its data
    /// is if the tags are interleaved with it.
    fn metadata_needed(&self, log2_buffer: u8) -> u128 {
        // 128 bits cannot overflow here: the factors have at most 64 and 42 bits.
        let provided = u128::from(self.provided_data_sectors);
        let first = u128::from(self.initial);
        let end = match self.shape.interleave {
            Some(interleave) => {
                let areas = provided.div_ceil(1 << interleave.log2_sectors());
                first + areas * u128::from(self.run) + provided
            }
            None => {
                let tags = (provided >> self.shape.block_size.log2_sectors())
                    * u128::from(self.shape.tag_size.get());
                let buffers = tags.div_ceil(u128::from(SECTOR) << log2_buffer);
                first + (buffers << log2_buffer)
            }
        };
        end.max(first + u128::from(METADATA_PADDING) + 1)
    }

    /// The size in bytes of the smallest device on which the volume fits, if its tags are
    /// interleaved with its data; `u64::MAX` if there can be none.
    pub(crate) fn storage_needed(&self) -> u64 {
        let bytes = self.metadata_needed(LOG2_MIN_BUFFER) * u128::from(SECTOR);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The number of blocks, and thus of tags.
    pub(crate) fn blocks(&self) -> u64 {
        self.provided_data_sectors >> self.shape.block_size.log2_sectors()
    }

    /// The size of the data in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.provided_data_sectors * SECTOR
    }

    /// The offset of the journal, or of the bitmap that replaces it, in bytes.
    pub(crate) fn journal_offset(&self) -> u64 {
        SUPERBLOCK_SECTORS * SECTOR
    }

    /// The length of the journal in bytes.
    pub(crate) fn journal_len(&self) -> u64 {
        (self.initial - SUPERBLOCK_SECTORS) * SECTOR
    }

    /// The extents of the sectors in `range`, one for each area.
    pub(crate) fn extents(&self, range: Range<u64>) -> impl Iterator<Item = Extent> {
        let geometry = *self;
        let mut sector = range.start;
        std::iter::from_fn(move || {
            let sectors = geometry
                .area_end(sector)
                .min(range.end)
                .checked_sub(sector)?;
            let extent = Extent {
                sector,
                position: geometry.data_position(sector),
                sectors,
            };
            sector += sectors;
            (sectors > 0).then_some(extent)
        })
    }

    /// The number of blocks in an area: their tags are contiguous.
    pub(crate) fn blocks_per_area(&self) -> u64 {
        match self.shape.interleave {
            Some(interleave) => {
                1 << (interleave.log2_sectors() - self.shape.block_size.log2_sectors())
            }
            None => self.blocks(),
        }
    }

    /// The offset of the tags of area `area` on the metadata device, in bytes.
    pub(crate) fn area_tags_offset(&self, area: u64) -> u64 {
        // Without an interleave there is only the first area.
        let log2 = self.shape.interleave.map_or(0, Interleave::log2_sectors);
        (self.initial + (area << log2) + area * self.run) * SECTOR
    }

    /// Whether the tag of the block at `sector` is split across two sectors.
    pub(crate) fn has_split_tag(&self, sector: u64) -> bool {
        let block = (sector >> self.shape.block_size.log2_sectors()) % self.blocks_per_area();
        let tag_size = u64::from(self.shape.tag_size.get());
        let start = block * tag_size;
        start / SECTOR != (start + tag_size - 1) / SECTOR
    }

    fn data_position(&self, sector: u64) -> u64 {
        match self.shape.interleave {
            Some(interleave) => {
                let area = sector >> interleave.log2_sectors();
                // Every area's tags come before its data.
                self.initial + (area + 1) * self.run + sector
            }
            None => sector,
        }
    }

    fn area_end(&self, sector: u64) -> u64 {
        match self.shape.interleave {
            Some(interleave) => {
                ((sector >> interleave.log2_sectors()) + 1) << interleave.log2_sectors()
            }
            None => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use verimount_testkit::cases;

    use arbtest::{
        arbitrary::{self, Unstructured},
        arbtest,
    };

    use super::*;
    use crate::{BlockSize, Interleave, Padding, TagSize};

    fn shape(tag_size: u16, block_size: u64, padding: Padding) -> Shape {
        Shape {
            block_size: BlockSize::new(block_size).unwrap(),
            tag_size: TagSize::new(tag_size).unwrap(),
            interleave: Some(Interleave::DEFAULT),
            padding,
            journal_sections: NonZeroU32::MIN,
            journal_mac: false,
        }
    }

    /// A single device of `sectors` sectors.
    fn alone(sectors: u64) -> StorageSize {
        StorageSize {
            metadata: sectors,
            data: sectors,
        }
    }

    fn largest(
        mut shape: Shape,
        journal: Option<u64>,
        size: StorageSize,
    ) -> Result<Geometry, Error> {
        shape.journal_sections = Geometry::journal_sections(shape, journal, size)?;
        Geometry::largest(shape, size)
    }

    /// The sizes that the kernel chooses for an image of 32 MiB: `integritysetup format` with
    /// `--tag-size`, `--sector-size` and, for the legacy padding, `--integrity-legacy-padding`.
    #[test]
    fn volumes_are_as_large_as_the_kernels() {
        for (tag, block, padding, provided) in [
            (4, 512, Padding::Legacy, 64_664),
            (20, 512, Padding::Legacy, 62_552),
            (4, 4096, Padding::Fixed, 65_072),
        ] {
            let geometry = largest(shape(tag, block, padding), None, alone(65_536)).unwrap();
            assert_eq!(geometry.provided_data_sectors, provided, "{tag} {block}");
        }
    }

    #[test]
    fn data_begins_where_the_kernels_does() {
        for (tag, block, first) in [(4, 512, 315_392), (4, 4096, 221_184)] {
            let shape = shape(tag, block, Padding::Fixed);
            let geometry = largest(shape, None, alone(65_536)).unwrap();
            let extent = geometry.extents(0..1).next().unwrap();
            assert_eq!(extent.position * SECTOR, first);
        }
    }

    #[test]
    fn impossible_geometries_are_refused() {
        let shape = shape(4, 512, Padding::Fixed);
        for sectors in 0..190 {
            assert!(largest(shape, None, alone(sectors)).is_err());
        }
        assert!(largest(shape, None, alone(u64::MAX)).is_ok());
        let narrow = Shape {
            interleave: Some(Interleave::new(64).unwrap()),
            padding: Padding::Legacy,
            ..shape
        };
        let refused = largest(narrow, None, alone(1 << 20));
        assert!(matches!(
            refused,
            Err(Error::Unsupported(Unsupported::NarrowLegacy))
        ));
    }

    fn any_shape(u: &mut Unstructured<'_>) -> arbitrary::Result<Shape> {
        let is_legacy: bool = u.arbitrary()?;
        let interleave = if u.ratio(4, 5)? {
            let log2 = u.int_in_range(3..=12)?;
            let log2 = if is_legacy { log2.max(7) } else { log2 };
            Some(Interleave::from_log2_sectors(log2).unwrap())
        } else {
            None
        };
        Ok(Shape {
            block_size: BlockSize::from_log2_sectors(u.int_in_range(0..=3)?).unwrap(),
            tag_size: TagSize::new(u.int_in_range(1..=TagSize::MAX)?).unwrap(),
            interleave,
            padding: if is_legacy {
                Padding::Legacy
            } else {
                Padding::Fixed
            },
            journal_sections: NonZeroU32::MIN,
            journal_mac: u.arbitrary()?,
        })
    }

    /// The sectors wanted for a journal.
    fn any_journal(u: &mut Unstructured<'_>) -> arbitrary::Result<Option<u64>> {
        Ok(if u.arbitrary()? {
            Some(u.int_in_range(0..=2999)?)
        } else {
            None
        })
    }

    /// For every byte of a device, whether it is in use.
    struct Map(Vec<bool>);

    impl Map {
        fn take(&mut self, range: Range<u64>) {
            for taken in &mut self.0[range.start as usize..range.end as usize] {
                assert!(!*taken, "two structures overlap");
                *taken = true;
            }
        }
    }

    /// The test lays the areas out one after the other, without the arithmetic that it checks.
    #[test]
    fn nothing_overlaps_and_everything_is_where_the_format_says() {
        cases(400, 32, |u| {
            let shape = any_shape(u)?;
            let is_split = shape.interleave.is_none();
            let sectors = u.int_in_range(0..=11_999)?;
            let size = if is_split {
                StorageSize {
                    metadata: u.int_in_range(0..=11_999)?,
                    data: sectors,
                }
            } else {
                alone(sectors)
            };
            if let Ok(geometry) = largest(shape, any_journal(u)?, size) {
                lay_out(shape, size, geometry);
            }
            Ok(())
        });
    }

    fn lay_out(shape: Shape, size: StorageSize, geometry: Geometry) {
        let is_split = shape.interleave.is_none();
        let bytes = |sectors: u64| vec![false; (sectors * SECTOR) as usize];
        let mut metadata = Map(bytes(size.metadata));
        let mut data = Map(bytes(if is_split { size.data } else { 0 }));
        let block = shape.block_size.sectors();
        let tag = u64::from(shape.tag_size.get());

        metadata.take(0..geometry.journal_offset());
        let journal_end = geometry.journal_offset() + geometry.journal_len();
        metadata.take(geometry.journal_offset()..journal_end);

        let mut position = journal_end;
        let mut sector = 0;
        while sector < geometry.provided_data_sectors {
            let area = match shape.interleave {
                Some(interleave) => 1 << interleave.log2_sectors(),
                None => u64::MAX,
            };
            let area_sectors = area.min(geometry.provided_data_sectors - sector);
            let tags = geometry.area_tags_offset(sector / area);
            assert_eq!(tags, position);
            metadata.take(tags..tags + area_sectors / block * tag);
            if shape.interleave.is_some() {
                assert_eq!(geometry.blocks_per_area(), area / block);
                let tags_len = geometry.blocks_per_area() * tag;
                position += tags_len.next_multiple_of(shape.padding.bytes());
            }
            let data_start = if is_split { 0 } else { position };
            for number in 0..area_sectors {
                let extent = geometry.extents(sector + number..u64::MAX).next().unwrap();
                let place = extent.position * SECTOR;
                assert_eq!(place, data_start + number * SECTOR);
                let device = if is_split { &mut data } else { &mut metadata };
                device.take(place..place + SECTOR);
            }
            position = data_start + area_sectors * SECTOR;
            sector += area_sectors;
        }
    }

    /// The size is the largest possible multiple of 8 sectors, as in the kernel.
    #[test]
    fn no_larger_volume_fits() {
        arbtest(|u| {
            let shape = any_shape(u)?;
            let size = alone(u.int_in_range(0..=(1 << 40) - 1)?);
            let Ok(geometry) = largest(shape, None, size) else {
                return Ok(());
            };
            if shape.interleave.is_some() {
                let larger = Geometry {
                    provided_data_sectors: geometry.provided_data_sectors + 8,
                    ..geometry
                };
                assert!(!larger.fits(size, LOG2_MIN_BUFFER));
            }
            Ok(())
        })
        .size_max(32);
    }

    /// The disk is exactly as large as asked for, and needs every sector of its storage.
    #[test]
    fn an_exact_disk_needs_all_of_its_storage() {
        arbtest(|u| {
            let mut shape = any_shape(u)?;
            if shape.interleave.is_none() {
                return Ok(());
            }
            let units = u.int_in_range(1..=(1 << 30) - 1)?;
            let disk = DiskSize::new(units * DiskSize::UNIT).unwrap();
            let size = alone(disk.sectors());
            shape.journal_sections =
                Geometry::journal_sections(shape, any_journal(u)?, size).unwrap();
            let sized = Geometry::sized(shape, disk.sectors()).unwrap();
            let needed = sized.storage_needed() / SECTOR;
            let geometry = Geometry::wanted(shape, Some(disk), alone(needed)).unwrap();
            assert_eq!(geometry.size(), disk.bytes());
            match Geometry::wanted(shape, Some(disk), alone(needed - 1)) {
                Err(Error::DiskTooLarge { largest }) => assert!(largest < disk.bytes()),
                Err(Error::TooSmall { .. }) => {}
                other => panic!("{other:?}"),
            }
            Ok(())
        })
        .size_max(32);
    }

    #[test]
    fn extents_are_the_range() {
        arbtest(|u| {
            let geometry = Geometry::without_data(any_shape(u)?).unwrap();
            let (start, len) = (u.int_in_range(0..=99_999)?, u.int_in_range(0..=99_999)?);
            let mut next = start;
            for extent in geometry.extents(start..start + len) {
                assert_eq!(extent.sector, next);
                assert!(extent.sectors > 0);
                let last = next + extent.sectors - 1;
                let position = geometry.data_position(last);
                assert_eq!(position, extent.position + extent.sectors - 1);
                next += extent.sectors;
            }
            assert_eq!(next, start + len);
            Ok(())
        })
        .size_max(32);
    }
}
