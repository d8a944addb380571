//! Volumes that are read and checked without being written, whatever a crash has left.

use std::num::NonZeroUsize;

use verimount_integrity::{Algorithm, Error, FormatOptions, Mode, SECTOR, Unsupported, Volume};
use verimount_source::WriteAt;
use verimount_testkit::{go_on, noise};

use crate::common::{KB, MB, World, contents, integrity};

fn formatted(algorithm: Algorithm) -> World {
    let options = FormatOptions {
        integrity: integrity(algorithm),
        ..FormatOptions::default()
    };
    World::new(40 * MB, options).unwrap()
}

/// A volume that was written in parts, flushed, and not closed, with all that it then holds.
fn crashed(mode: Mode, algorithm: Algorithm) -> (World, Vec<u8>) {
    let world = formatted(algorithm);
    let volume = world.open(mode);
    let mut expected = vec![0; volume.size() as usize];
    for (number, offset) in [MB, 20 * MB + 512, MB + 40 * KB].into_iter().enumerate() {
        let bytes = noise(100 * KB as usize + 7, number as u64);
        volume.write_at(&bytes, offset).unwrap();
        expected[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        volume.flush().unwrap();
    }
    drop(volume);
    (world, expected)
}

/// Opens it read-only, and finds that nothing was written by then.
fn open(world: &World) -> Volume {
    let before = world.metadata.write_counts();
    let volume = world.open(Mode::ReadOnly);
    assert_eq!(world.metadata.write_counts(), before);
    volume
}

#[test]
fn blocks_in_the_journal_are_read_from_memory() {
    for algorithm in [Algorithm::Crc32c, Algorithm::HmacSha256] {
        let (world, expected) = crashed(Mode::Journal, algorithm);
        let stored = world.metadata.inner().to_vec();
        let volume = open(&world);
        assert_eq!(volume.mode(), Mode::ReadOnly);
        assert!(contents(&volume) == expected);
        let mut bad = 0;
        let threads = NonZeroUsize::new(2).unwrap();
        let checked = volume.check(threads, &mut |_| bad += 1, &mut go_on);
        checked.unwrap();
        assert_eq!(bad, 0);
        volume.close().unwrap();
        assert!(world.metadata.inner().to_vec() == stored);
        // It is all there for those who may write.
        assert!(contents(&world.open(Mode::Journal)) == expected);
    }
}

/// A journal of any size is replayed into memory of a bounded size, or not at all.
#[test]
fn a_journal_that_holds_too_much_is_refused() {
    const MOST: u64 = 256 * MB;
    let options = FormatOptions {
        journal_sectors: Some(300 * MB / SECTOR),
        ..FormatOptions::default()
    };
    let world = World::new(320 * MB, options).unwrap();
    let volume = world.open(Mode::Journal);
    // The journal holds each write of the same blocks.
    let bytes = noise(MB as usize, 1);
    for _ in 0..MOST / MB {
        volume.write_at(&bytes, 0).unwrap();
        volume.flush().unwrap();
    }
    let mut found = vec![0; bytes.len()];
    open(&world).read_at(&mut found, 0).unwrap();
    assert!(found == bytes);

    volume.write_at(&bytes[..4096], 0).unwrap();
    volume.flush().unwrap();
    drop(volume);
    match Volume::open(world.devices(), &world.open_options(Mode::ReadOnly)) {
        Err(Error::Unsupported(Unsupported::JournalContents(held))) => {
            assert_eq!(held as u64, MOST);
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    }
    // Who may write brings them to their places.
    world.open(Mode::Journal).read_at(&mut found, 0).unwrap();
    assert!(found == bytes);
}

#[test]
fn nothing_can_be_changed() {
    let world = formatted(Algorithm::Crc32c);
    world.open(Mode::Direct).close().unwrap();
    let volume = open(&world);
    for changed in [
        volume.write_at(&[1; 4096], 0),
        volume.write_at(&[], 0),
        volume.write_zeroes(0, 4096),
        volume.discard(0, 4096),
        volume.accept_unverified(0..8),
    ] {
        assert!(matches!(changed, Err(Error::ReadOnly)), "{changed:?}");
    }
    volume.flush().unwrap();
    assert!(contents(&volume).iter().all(|&byte| byte == 0));
}

#[test]
fn damage_is_noticed() {
    let (world, expected) = crashed(Mode::Direct, Algorithm::Sha256);
    let place = world.metadata.inner().to_vec();
    let block = &expected[MB as usize + 8192..][..4096];
    let place = place
        .windows(4096)
        .position(|found| found == block)
        .unwrap();
    world
        .metadata
        .write_all_at(&[!block[0]], place as u64)
        .unwrap();
    let volume = open(&world);
    let mut buf = vec![0; 4096];
    let offset = MB + 8192;
    assert!(matches!(
        volume.read_at(&mut buf, offset),
        Err(Error::Mismatch { .. })
    ));
    volume.read_at(&mut buf, offset + 4096).unwrap();
    let recent = volume.recent_mismatches();
    assert_eq!(recent.len(), 1);
    assert_eq!(recent[0].sector, offset / 512);
    assert_eq!(volume.stats().mismatches, 1);
    // However often it is met, it is told once.
    volume.read_at(&mut buf, offset).unwrap_err();
    assert_eq!(volume.recent_mismatches(), recent);
    assert_eq!(volume.stats().mismatches, 2);
}

/// Blocks that were being written are not checked; all others are, and the bitmap stays.
#[test]
fn dirty_regions_are_not_checked() {
    let (world, expected) = crashed(Mode::Bitmap, Algorithm::Crc32c);
    let volume = open(&world);
    assert_eq!(volume.recalculation_sector(), Some(0));
    assert!(contents(&volume) == expected);
    volume.close().unwrap();
    assert!(
        world
            .open(Mode::RecoveryUnverified)
            .superblock()
            .dirty_bitmap
    );
    let volume = world.open(Mode::Bitmap);
    volume.recalculate(&mut go_on).unwrap();
    assert!(contents(&volume) == expected);
}

/// To believe what nobody has vouched for would let somebody without the key choose what is read.
#[test]
fn keyed_tags_are_not_passed_over() {
    let (world, _) = crashed(Mode::Direct, Algorithm::HmacSha256);
    // The superblock's flag for a bitmap.
    let flags = world.metadata.inner().to_vec()[24];
    world.metadata.write_all_at(&[flags | 0x04], 24).unwrap();
    match Volume::open(world.devices(), &world.open_options(Mode::ReadOnly)) {
        Err(Error::Unsupported(Unsupported::KeyedRecalculation)) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    }
}
