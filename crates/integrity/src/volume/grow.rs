use std::sync::Arc;

use crate::{
    Devices, Error, Mode, OpenOptions, Progress, Superblock, Volume, blocks::Blocks,
    format::write_zeros, geometry::Geometry, storage::Storage,
};

/// Makes the volume on `devices`, which have become larger, as large as they allow. The new blocks
/// are zero. `is_zero`: the storage is known to hold zeros where it was added.
///
/// The superblock is written last: until then the volume has its old size.
///
/// # Errors
/// As [`Volume::open`], and [`Error::Cancelled`].
pub fn grow(
    devices: Devices,
    options: &OpenOptions,
    is_zero: bool,
    progress: &mut Progress<'_>,
) -> Result<Superblock, Error> {
    let direct = OpenOptions {
        mode: Mode::Direct,
        ..options.clone()
    };
    // What a crash has left belongs to the old size, and is put in order first.
    let volume = Volume::open(devices.clone(), &direct)?;
    let superblock = volume.superblock();
    let old_end = superblock.provided_data_sectors();
    let storage = Arc::new(Storage::new(devices));
    let start = options.reserved_sectors;
    let geometry = Geometry::largest(superblock.shape, start, storage.size())?;
    if geometry.provided_data_sectors() > old_end {
        let tagger = options.integrity.tagger(&superblock)?;
        let blocks = Blocks::new(storage, geometry, tagger, options.cache_bytes);
        write_zeros(&blocks, old_end, is_zero, progress)?;
        blocks.flush()?;
        volume.superblock.update(|superblock| {
            // One that has come to the end has not come to the new one.
            superblock.recalculation = superblock.recalculation_sector();
            superblock.provided_data_sectors = geometry.provided_data_sectors();
        })?;
    }
    let grown = volume.superblock();
    volume.close()?;
    Ok(grown)
}
