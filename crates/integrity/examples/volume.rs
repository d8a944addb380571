//! Formats a volume in memory, writes and reads it, and flips a bit of the storage behind its back.
//!
//! `cargo run -p verimount-integrity --example volume`

use std::{error::Error as StdError, num::NonZeroUsize, ops::ControlFlow, sync::Arc};

use verimount_integrity::{
    Algorithm, Devices, Error, FormatOptions, Integrity, Mode, OpenOptions, Volume, format,
};
use verimount_source::{MemoryStorage, ReadAt, WriteAt};

fn main() -> Result<(), Box<dyn StdError>> {
    // Anything that implements `WriteAt`; a file would be `FileStorage::open(path)?`.
    let storage = Arc::new(MemoryStorage::new(vec![0; 16 << 20]));
    let devices = Devices::new(storage.clone());

    // The volume does not store its algorithm: it is given when formatting and when opening.
    let integrity = Integrity {
        algorithm: Algorithm::Xxhash64,
        ..Integrity::default()
    };
    let options = FormatOptions {
        integrity: integrity.clone(),
        is_zero: true,
        ..FormatOptions::default()
    };
    let superblock = format(
        devices.clone(),
        &options,
        &mut |_| ControlFlow::Continue(()),
    )?;
    println!("{} sectors", superblock.provided_data_sectors);

    // Any number of threads may use the volume. Flushed writes survive a crash.
    let options = OpenOptions {
        integrity,
        mode: Mode::Journal,
        ..OpenOptions::default()
    };
    let volume = Volume::open(devices.clone(), &options)?;
    volume.write_at(b"the quick brown fox", 1 << 20)?;
    volume.flush()?;
    volume.close()?;

    // A bit flips.
    let bytes = storage.to_vec();
    let at = bytes.windows(5).position(|window| window == b"quick");
    let at = at.ok_or("the text is nowhere")?;
    storage.write_all_at(&[bytes[at] ^ 1], at as u64)?;

    // Reads of its block fail; all other blocks can be read.
    let volume = Volume::open(devices, &options)?;
    match volume.read_at(&mut [0; 19], 1 << 20) {
        Err(Error::Mismatch { first, .. }) => println!("read failed: {first}"),
        other => return Err(format!("it should have been refused: {other:?}").into()),
    }
    let mut rest = vec![0; (volume.size() - (2 << 20)) as usize];
    volume.read_exact_at(&mut rest, 2 << 20)?;

    // A check reads the whole volume.
    volume.check(
        NonZeroUsize::MIN,
        &mut |bad| println!("bad sectors {:?}: {}", bad.sectors, bad.reason),
        &mut |_| ControlFlow::Continue(()),
    )?;
    Ok(volume.close()?)
}
