use crate::{
    Devices, Error, Mode, OpenOptions, Progress, Superblock, Volume, blocks::Blocks,
    format::write_zeros, geometry::Geometry,
};

/// Makes the volume on `devices`, which have become larger, as large as they allow. The new blocks
/// are zero, whatever the storage holds where it was added.
///
/// The superblock is written last: until then the volume has its old size.
///
/// # Errors
/// As [`Volume::open`], and [`Error::Cancelled`].
pub fn grow(
    devices: Devices,
    options: &OpenOptions,
    progress: &mut Progress<'_>,
) -> Result<Superblock, Error> {
    let direct = OpenOptions {
        mode: Mode::Direct,
        ..options.clone()
    };
    // What a crash has left belongs to the old size, and is put in order first.
    let volume = Volume::open(devices, &direct)?;
    let superblock = volume.superblock();
    let old_end = superblock.provided_data_sectors();
    let storage = volume.blocks.storage.clone();
    let start = options.reserved_sectors;
    let geometry = Geometry::largest(superblock.shape, start, storage.size())?;
    if geometry.provided_data_sectors() > old_end {
        let tagger = options.integrity.tagger(&superblock)?;
        let blocks = Blocks::new(storage, geometry, tagger, options.cache_bytes);
        write_zeros(&blocks, old_end, false, progress)?;
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
