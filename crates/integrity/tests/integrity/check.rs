//! Scrubbing, accepting and growing volumes.

use std::{num::NonZeroUsize, ops::ControlFlow, ops::Range};

use verimount_integrity::{BadReason, BlockSize, Error, FormatOptions, Mode, Volume, grow};
use verimount_source::WriteAt;
use verimount_testkit::{go_on, noise};

use crate::common::{MB, World, contents, storage_of};

const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn bad_ranges(volume: &Volume) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let mut bytes = 0;
    let mut found = |bad: verimount_integrity::BadRange| {
        assert!(matches!(bad.reason, BadReason::Mismatch(_)));
        ranges.push(bad.sectors);
    };
    volume
        .check(THREADS, &mut found, &mut |more| {
            bytes += more;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(bytes, volume.size());
    ranges
}

fn world() -> World {
    let options = FormatOptions {
        block_size: BlockSize::SECTOR,
        ..FormatOptions::default()
    };
    World::new(16 * MB, options).unwrap()
}

/// Corrupts data on the device behind the volume's back.
fn damage(world: &World, sectors: Range<u64>) {
    let stored = world.metadata.inner().to_vec();
    let volume = world.open(Mode::RecoveryUnverified);
    let first = &contents(&volume)[..512];
    let start = stored
        .windows(512)
        .position(|window| window == first)
        .unwrap() as u64;
    for sector in sectors {
        world
            .metadata
            .write_all_at(&[1, 2, 3], start + sector * 512)
            .unwrap();
    }
}

#[test]
fn every_bad_range_is_named_and_can_be_accepted() {
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        let world = world();
        let volume = world.open(Mode::Direct);
        volume
            .write_at(&noise(volume.size() as usize, 1), 0)
            .unwrap();
        volume.close().unwrap();
        // One range crosses the boundary between two reads.
        for bad in [2..3, 2040..2060, 5000..5002] {
            damage(&world, bad);
        }
        let volume = world.open(mode);
        assert_eq!(bad_ranges(&volume), [2..3, 2040..2060, 5000..5002]);
        volume.accept_unverified(2040..2060).unwrap();
        assert_eq!(bad_ranges(&volume), [2..3, 5000..5002]);
        volume.close().unwrap();
        let volume = world.open(Mode::Direct);
        let mut buf = [0; 3];
        volume.read_at(&mut buf, 2050 * 512).unwrap();
        assert_eq!(buf, [1, 2, 3]);
    }
}

#[test]
fn only_whole_blocks_of_the_volume_can_be_accepted() {
    let world = World::new(16 * MB, FormatOptions::default()).unwrap();
    let volume = world.open(Mode::Direct);
    let end = volume.size() / 512;
    for bad in [
        0..1,
        4..8,
        0..end + 8,
        Range { start: 16, end: 8 },
        u64::MAX - 7..u64::MAX,
    ] {
        let result = volume.accept_unverified(bad.clone());
        assert!(matches!(result, Err(Error::PastEnd { .. })), "{bad:?}");
    }
}

#[test]
fn a_check_can_be_ended() {
    let world = world();
    let result = world
        .open(Mode::Direct)
        .check(THREADS, &mut |_| {}, &mut |_| ControlFlow::Break(()));
    assert!(matches!(result, Err(Error::Cancelled)));
}

#[test]
fn a_volume_grows_with_its_device() {
    let world = world();
    let volume = world.open(Mode::Journal);
    let bytes = noise(volume.size() as usize, 1);
    volume.write_at(&bytes, 0).unwrap();
    // Not closed: the journal is replayed first.
    volume.flush().unwrap();
    drop(volume);
    let mut stored = world.metadata.inner().to_vec();
    stored.resize(40 * MB as usize, 9);
    let larger = World {
        metadata: storage_of(stored),
        ..world
    };
    let options = larger.open_options(Mode::Direct);
    let superblock = grow(larger.devices(), &options, None, &mut go_on).unwrap();
    let volume = larger.open(Mode::Direct);
    assert_eq!(superblock.provided_data_sectors * 512, volume.size());
    assert!(volume.size() > 38 * MB);
    let grown = contents(&volume);
    assert_eq!(grown[..bytes.len()], bytes);
    assert!(grown[bytes.len()..].iter().all(|&byte| byte == 0));
    // The volume has its maximum size.
    let again = grow(larger.devices(), &options, None, &mut go_on).unwrap();
    assert_eq!(again, superblock);
}

#[test]
fn an_interrupted_growth_changes_nothing() {
    let world = world();
    let mut stored = world.metadata.inner().to_vec();
    stored.resize(80 * MB as usize, 9);
    let larger = World {
        metadata: storage_of(stored),
        ..world
    };
    let options = larger.open_options(Mode::Direct);
    let result = grow(larger.devices(), &options, None, &mut |_| {
        ControlFlow::Break(())
    });
    assert!(matches!(result, Err(Error::Cancelled)));
    let volume = larger.open(Mode::Direct);
    assert_eq!(volume.superblock(), larger.superblock);
    contents(&volume);
}
