//! One request to the storage misbehaves, or one stored bit flips: every corrupted byte is
//! detected.

use std::sync::Arc;

use verimount_integrity::{
    BlockSize, Devices, Error, FormatOptions, Interleave, Mode, OpenOptions, Volume,
};
use verimount_source::{MemoryStorage, WriteAt};
use verimount_testkit::{Fault, Faulty, go_on, noise};

use crate::common::{KB, World};

const BLOCK: usize = 512;
const BLOCKS: usize = 60;
const MODES: [Mode; 3] = [Mode::Journal, Mode::Bitmap, Mode::Direct];

fn world() -> World {
    let options = FormatOptions {
        block_size: BlockSize::SECTOR,
        interleave: Some(Interleave::new(32).unwrap()),
        // A few sections, so that the ring wraps.
        journal_sectors: Some(4 * 180),
        ..FormatOptions::default()
    };
    World::new(512 * KB, options).unwrap()
}

/// The allowed contents of each block: those last flushed, and those written since.
type Allowed = Vec<Vec<u8>>;

/// Uses a volume until a request fails.
fn use_volume(
    storage: Arc<dyn WriteAt>,
    options: &OpenOptions,
    allowed: &mut Allowed,
) -> Result<(), Error> {
    let volume = Volume::open(Devices::new(storage), options)?;
    for round in 1..=8 {
        for (start, len) in [(0, 20), (40, 3), (round, 7), (15, 30)] {
            for versions in &mut allowed[start..start + len] {
                versions.push(round as u8);
            }
            let bytes = vec![round as u8; len * BLOCK];
            volume.write_at(&bytes, (start * BLOCK) as u64)?;
        }
        volume.read_at(&mut [0; BLOCK], (50 * BLOCK) as u64)?;
        if round % 2 == 0 {
            volume.flush()?;
            keep_last(allowed);
        }
    }
    volume.close()?;
    keep_last(allowed);
    Ok(())
}

fn keep_last(allowed: &mut Allowed) {
    for versions in allowed {
        versions.drain(..versions.len() - 1);
    }
}

/// Whether all readable blocks have allowed contents.
fn check(storage: Arc<dyn WriteAt>, options: &OpenOptions, allowed: &Allowed) {
    let Ok(volume) = Volume::open(Devices::new(storage), options) else {
        return;
    };
    volume.recalculate(&mut go_on).unwrap();
    for (number, versions) in allowed.iter().enumerate() {
        let mut block = [0; BLOCK];
        match volume.read_at(&mut block, (number * BLOCK) as u64) {
            Ok(()) => assert!(
                versions.iter().any(|&byte| block == [byte; BLOCK]),
                "block {number} is {}, should be {versions:?}",
                block[0]
            ),
            Err(error) => assert!(matches!(error, Error::Mismatch { .. }), "{error}"),
        }
    }
}

#[test]
fn every_fault_is_noticed_or_does_no_harm() {
    let world = world();
    let stored = world.metadata.inner().to_vec();
    for mode in MODES {
        let options = world.open_options(mode);
        for fault in Fault::ALL {
            for good in 0.. {
                let memory = Arc::new(MemoryStorage::new(stored.clone()));
                let faulty = Arc::new(Faulty::new(memory.clone(), fault, good));
                let mut allowed = vec![vec![0]; BLOCKS];
                let result = use_volume(faulty.clone(), &options, &mut allowed);
                if !faulty.has_failed() {
                    result.unwrap();
                    assert!(good > 5, "{mode}, {fault:?}: the test has no effect");
                    break;
                }
                println!("{mode}, {fault:?} after {good} good requests");
                // After the detection, a crash in bitmap mode may hide the damage again: tags of
                // dirty regions are recalculated from whatever data is there.
                if !matches!(result, Err(Error::Mismatch { .. })) {
                    check(memory, &options, &allowed);
                }
            }
        }
    }
}

fn flip(storage: &impl WriteAt, bit: u64) {
    let mut byte = [0];
    storage.read_exact_at(&mut byte, bit / 8).unwrap();
    let byte = [byte[0] ^ (1 << (bit % 8))];
    storage.write_all_at(&byte, bit / 8).unwrap();
}

#[test]
fn every_bit_of_the_superblock_is_noticed_or_does_no_harm() {
    let world = world();
    let volume = world.open(Mode::Direct);
    let written = noise(volume.size() as usize, 1);
    volume.write_at(&written, 0).unwrap();
    volume.close().unwrap();
    let stored = world.metadata.inner().to_vec();
    for bit in 0..64 * 8 {
        for mode in MODES {
            let memory = Arc::new(MemoryStorage::new(stored.clone()));
            flip(&memory, bit);
            let devices = Devices::new(memory);
            let Ok(volume) = Volume::open(devices, &world.open_options(mode)) else {
                continue;
            };
            let block = volume.superblock().shape.block_size.bytes();
            for (number, expected) in written.chunks_exact(block).enumerate() {
                let mut found = vec![0; block];
                let offset = (number * block) as u64;
                if volume.read_at(&mut found, offset).is_ok() {
                    assert!(found == expected, "bit {bit}, block {number}");
                }
            }
        }
    }
}

/// A bit wrongly cleared in the bitmap leaves mismatches; a bit wrongly set does no harm.
#[test]
fn every_bit_of_the_bitmap_is_noticed_or_does_no_harm() {
    let world = world();
    let volume = world.open(Mode::Bitmap);
    let written = noise(volume.size() as usize, 1);
    volume.write_at(&written[..40 * BLOCK], 0).unwrap();
    // The tags are still in memory.
    drop(volume);
    let stored = world.metadata.inner().to_vec();
    let mut mismatches = 0;
    for bit in 0..64 {
        let memory = Arc::new(MemoryStorage::new(stored.clone()));
        flip(&memory, 4096 * 8 + bit);
        let options = world.open_options(Mode::Bitmap);
        let volume = Volume::open(Devices::new(memory), &options).unwrap();
        volume.recalculate(&mut go_on).unwrap();
        for number in 0..40 {
            let mut found = [0; BLOCK];
            match volume.read_at(&mut found, (number * BLOCK) as u64) {
                Ok(()) => assert!(found == written[number * BLOCK..][..BLOCK]),
                Err(_) => mismatches += 1,
            }
        }
    }
    assert_eq!(mismatches, 40, "only the one bit that was set");
}
