use crate::{
    Devices, DiskSize, Error, Mode, OpenOptions, Progress, Superblock, Volume, blocks::Blocks,
    format::write_zeros, geometry::Geometry, tagger::Tagger,
};

/// Grows the volume on `devices` to a disk of this size, or else to the largest size that they
/// allow. The new blocks are zero, whatever the added storage holds.
///
/// The superblock is written last: until then the volume has its old size.
///
/// # Errors
/// As [`Volume::open`], [`Error::DiskTooLarge`], [`Error::CannotShrink`] and [`Error::Cancelled`].
pub fn grow(
    devices: Devices,
    options: &OpenOptions,
    disk_size: Option<DiskSize>,
    progress: &mut Progress<'_>,
) -> Result<Superblock, Error> {
    let direct = OpenOptions {
        mode: Mode::Direct,
        ..options.clone()
    };
    // Recover from a crash first, with the old size.
    let volume = Volume::open(devices, &direct)?;
    let extended = extend(&volume, options, disk_size, progress);
    let superblock = volume.superblock();
    extended.and(volume.close())?;
    Ok(superblock)
}

fn extend(
    volume: &Volume,
    options: &OpenOptions,
    disk_size: Option<DiskSize>,
    progress: &mut Progress<'_>,
) -> Result<(), Error> {
    let superblock = volume.superblock();
    let old_end = superblock.provided_data_sectors;
    if disk_size.is_some_and(|disk| disk.sectors() < old_end) {
        return Err(Error::CannotShrink {
            size: volume.size(),
        });
    }
    let storage = volume.blocks.storage.clone();
    let geometry = Geometry::wanted(superblock.shape, disk_size, storage.size())?;
    if geometry.provided_data_sectors <= old_end {
        return Ok(());
    }
    let tagger = Tagger::new(&options.integrity, &superblock)?;
    let blocks = Blocks::new(storage, geometry, tagger, options.cache_bytes);
    write_zeros(&blocks, old_end, false, progress)?;
    blocks.flush()?;
    volume.superblock.update(|superblock| {
        // A finished recalculation has not covered the new sectors.
        superblock.recalculation = superblock.recalculation_sector();
        superblock.provided_data_sectors = geometry.provided_data_sectors;
    })
}
