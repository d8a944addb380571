use std::{
    num::NonZeroUsize,
    ops::{Deref, Range},
    sync::Arc,
};

use crate::{
    BadRange, Corruption, Devices, DiskSize, Error, Header, Integrity, Mode, OpenOptions, Progress,
    SECTOR, Usage, Volume, geometry::Geometry, journal::Ring, storage::Storage, superblock::Shape,
};

/// How a superblock is compared with its volume, and restored.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// The algorithms and keys that the volume was formatted with.
    pub integrity: Integrity,
    /// Whether discarded blocks are good.
    pub allow_discards: bool,
    /// The size of the disk, which may have grown since the superblock was copied; `None`: as in the copy, if the
    /// tags agree.
    pub disk_size: Option<DiskSize>,
    /// Whether the volume gets a new journal if it has none, as after a crash in bitmap mode.
    pub new_journal: bool,
}

/// A superblock that agrees with all tags and data of a volume.
#[derive(Debug, Clone)]
pub struct CheckedHeader(Header);

/// Compares a superblock with all tags and data of a volume, and changes nothing. At least half of the blocks must
/// match and, unless the size is given, the last one, and none behind it.
///
/// Every bad range of the disk is told to `found`, in order. `progress` gets the number of bytes checked since the last
/// call, and can cancel.
///
/// # Errors
/// [`Usage::HeaderMismatch`], [`Usage::SizeUnknown`], [`Error::Cancelled`], and as [`Volume::open`].
pub fn check_header(
    devices: &Devices,
    header: &Header,
    options: &RestoreOptions,
    threads: NonZeroUsize,
    found: &mut dyn FnMut(BadRange),
    progress: &mut Progress<'_>,
) -> Result<CheckedHeader, Error> {
    let header = match options.disk_size {
        Some(size) => header.of_size(size.sectors()),
        None => header.clone(),
    };
    // A few blocks tell of most that are wrong.
    let (header, volume) = open(devices, header, options, true)?;
    let shape = header.superblock.shape;
    let disk = volume.size() / SECTOR;
    let largest = match options.disk_size {
        Some(_) => disk,
        None => {
            let largest = Geometry::largest(shape, devices.size());
            // Where the tags have no room for all data, nothing tells where the disk might end.
            largest
                .map_err(|_| Usage::SizeUnknown)?
                .provided_data_sectors
        }
    };
    let (_, volume) = open(devices, header.of_size(largest.max(disk)), options, false)?;
    let mut bad = Bad {
        disk,
        ..Bad::default()
    };
    volume.check(threads, &mut |range| bad.add(range, found), progress)?;
    if bad.sectors > disk / 2 {
        Err(Usage::HeaderMismatch.into())
    } else if options.disk_size.is_none() && bad.deny_the_size(&shape, largest) {
        Err(Usage::SizeUnknown.into())
    } else {
        Ok(CheckedHeader(header))
    }
}

impl CheckedHeader {
    /// Writes it to the volume that it was compared with.
    ///
    /// # Errors
    /// [`Error::Latched`].
    pub fn restore(&self, devices: &Devices, integrity: &Integrity) -> Result<(), Error> {
        let superblock = self.superblock();
        let mac = integrity.mac(&superblock.shape)?;
        let storage = Arc::new(Storage::new(devices.clone()));
        if self.0.ignores_journal {
            let geometry = Geometry::of(superblock, devices.size())?;
            Ring::new(storage.clone(), &geometry, mac.clone(), superblock.salt).initialise()?;
        }
        storage.write_metadata_durable(&superblock.encode(mac.as_ref()), 0)
    }
}

impl Deref for CheckedHeader {
    type Target = Header;

    fn deref(&self) -> &Header {
        &self.0
    }
}

/// Opens a volume for reading by a superblock, which is returned with whether it has a journal.
fn open(
    devices: &Devices,
    mut header: Header,
    options: &RestoreOptions,
    probe: bool,
) -> Result<(Header, Volume), Error> {
    let open_options = OpenOptions {
        integrity: options.integrity.clone(),
        mode: Mode::ReadOnly,
        allow_discards: options.allow_discards,
        probe,
        ..OpenOptions::default()
    };
    let open = |header: &Header| {
        let devices = devices.clone().with_header(header.clone());
        Volume::open(devices, &open_options)
    };
    let volume = match open(&header) {
        Err(Error::Corrupt(Corruption::CommitId { .. } | Corruption::CommitSequence))
            if options.new_journal =>
        {
            header.ignores_journal = true;
            open(&header)?
        }
        Err(Error::Usage(Usage::NothingMatches)) => return Err(Usage::HeaderMismatch.into()),
        opened => opened?,
    };
    Ok((header, volume))
}

/// The blocks that do not match their tags, of a disk and of what follows it. All in sectors.
#[derive(Default)]
struct Bad {
    /// The size of the disk.
    disk: u64,
    /// How many are bad.
    sectors: u64,
    /// How many are bad behind the disk.
    behind: u64,
    /// The disk's last block is bad.
    has_last: bool,
}

impl Bad {
    /// Adds a range, and passes on what of it is on the disk.
    fn add(&mut self, bad: BadRange, found: &mut dyn FnMut(BadRange)) {
        let Range { start, end } = bad.sectors;
        self.behind += end.max(self.disk) - start.max(self.disk);
        let sectors = start.min(self.disk)..end.min(self.disk);
        if !sectors.is_empty() {
            self.sectors += sectors.end - sectors.start;
            self.has_last |= sectors.end == self.disk;
            found(BadRange { sectors, ..bad });
        }
    }

    /// Whether the size of the disk seems to be another one, where devices have room for one of `largest`.
    fn deny_the_size(&self, shape: &Shape, largest: u64) -> bool {
        let blocks = |sectors: u64| sectors / shape.block_size.sectors();
        let behind = blocks(largest.saturating_sub(self.disk));
        // Twice as many as match a tag of so many bits by chance.
        let by_chance = behind.checked_shr(u32::from(shape.tag_size.get()) * 8 - 1);
        self.has_last || behind - blocks(self.behind) > by_chance.unwrap_or(0)
    }
}
