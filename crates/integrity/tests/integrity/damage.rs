//! Every corrupted byte is detected.

use std::num::NonZeroUsize;

use verimount_integrity::{
    Algorithm, BlockSize, Error, FormatOptions, Interleave, Mode, OpenOptions, Tag, Usage, Volume,
};
use verimount_source::{ReadAt, WriteAt};
use verimount_testkit::{cases, go_on, noise};

use crate::common::{KB, MB, World, contents, integrity, key};

fn written_world(algorithm: Algorithm) -> World {
    let options = FormatOptions {
        integrity: integrity(algorithm),
        block_size: BlockSize::SECTOR,
        interleave: Some(Interleave::new(1024).unwrap()),
        ..FormatOptions::default()
    };
    let world = World::new(MB, options).unwrap();
    let volume = world.open(Mode::Direct);
    volume
        .write_at(&noise(volume.size() as usize, 3), 0)
        .unwrap();
    volume.close().unwrap();
    world
}

fn flip(world: &World, at: u64) {
    let mut byte = [0];
    world.metadata.read_exact_at(&mut byte, at).unwrap();
    world.metadata.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// The offset of the volume's data: after the superblock, the journal and the first tags.
fn data_start(world: &World) -> u64 {
    let stored = world.metadata.inner().to_vec();
    let block = &contents(&world.open(Mode::Direct))[..512];
    stored
        .windows(512)
        .position(|window| window == block)
        .unwrap() as u64
}

#[test]
fn exactly_the_block_concerned_fails() {
    let world = written_world(Algorithm::Crc32c);
    flip(&world, data_start(&world) + 5 * 512 + 100);
    let volume = world.open(Mode::Direct);
    let mut buf = vec![0; 512];
    for block in 0..20 {
        let result = volume.read_at(&mut buf, block * 512);
        match (block, result) {
            (5, Err(Error::Mismatch { first, more: 0 })) => {
                assert_eq!(first.sector, 5);
                assert_ne!(first.expected, first.actual);
            }
            (5, other) => panic!("{other:?}"),
            (_, result) => result.unwrap(),
        }
    }
    let whole = volume.read_at(&mut vec![0; 20 * 512], 0);
    assert!(matches!(whole, Err(Error::Mismatch { more: 0, .. })));
    assert_eq!(volume.stats().mismatches, 2);
    // A partial write of the bad block fails, as it would put a valid tag on the rest; a write of
    // the whole block succeeds.
    assert!(volume.write_at(&[1; 100], 5 * 512).is_err());
    volume.write_at(&[1; 512], 5 * 512).unwrap();
    volume.read_at(&mut buf, 5 * 512).unwrap();
}

#[test]
fn the_tag_of_changed_data_stays_secret() {
    let world = written_world(Algorithm::HmacSha256);
    flip(&world, data_start(&world));
    let Err(Error::Mismatch { first, .. }) = world.open(Mode::Direct).read_at(&mut [0; 512], 0)
    else {
        panic!("the change was not detected");
    };
    assert_eq!(first.actual, Tag::Secret);
}

#[test]
fn another_key_matches_nothing() {
    let world = written_world(Algorithm::HmacSha256);
    let mut options = world.open_options(Mode::Direct);
    options.integrity.key = Some(key(2));
    let before = world.metadata.write_counts();
    for mode in [Mode::Journal, Mode::Direct] {
        options.mode = mode;
        let refused = Volume::open(world.devices(), &options).err();
        assert!(matches!(refused, Some(Error::Usage(Usage::NothingMatches))));
    }
    assert_eq!(world.metadata.write_counts(), before);
    options.probe = false;
    let volume = Volume::open(world.devices(), &options).unwrap();
    let result = volume.read_at(&mut [0; 4096], 0);
    assert!(matches!(result, Err(Error::Mismatch { more: 7, .. })));
}

#[test]
fn recovery_returns_unverified_data_and_writes_nothing() {
    let world = written_world(Algorithm::Crc32c);
    flip(&world, data_start(&world));
    let before = world.metadata.inner().to_vec();
    let volume = world.open(Mode::RecoveryUnverified);
    let mut bytes = contents(&volume);
    bytes[0] ^= 4;
    assert_eq!(bytes, noise(bytes.len(), 3));
    assert!(matches!(volume.write_at(&[1], 0), Err(Error::ReadOnly)));
    assert!(matches!(volume.write_zeroes(0, 512), Err(Error::ReadOnly)));
    assert!(matches!(volume.discard(0, 512), Err(Error::ReadOnly)));
    let checked = volume.check(NonZeroUsize::MIN, &mut |_| {}, &mut go_on);
    assert!(matches!(checked, Err(Error::Unverified)), "{checked:?}");
    volume.flush().unwrap();
    volume.close().unwrap();
    assert_eq!(world.metadata.inner().to_vec(), before);
}

#[test]
fn a_discarded_block_reads_as_zeros_where_discards_are_allowed() {
    let world = written_world(Algorithm::Crc32c);
    let options = OpenOptions {
        allow_discards: true,
        ..world.open_options(Mode::Direct)
    };
    let volume = Volume::open(world.devices(), &options).unwrap();
    volume.discard(100, 3 * KB).unwrap();
    volume.close().unwrap();
    // The old data is left, as on a device that only marks a discarded block as free.
    let start = data_start_of(&world, 6);
    flip(&world, start - 5 * 512);
    let volume = Volume::open(world.devices(), &options).unwrap();
    let mut buf = vec![1; 5 * 512];
    volume.read_at(&mut buf, 512).unwrap();
    assert_eq!(buf, [0; 5 * 512]);

    let strict = world.open(Mode::Direct);
    assert!(matches!(
        strict.read_at(&mut buf, 512),
        Err(Error::Mismatch { more: 4, .. })
    ));
    assert!(matches!(
        strict.discard(0, 512),
        Err(Error::DiscardNotAllowed)
    ));
}

/// The offset of block `number`.
fn data_start_of(world: &World, number: usize) -> u64 {
    let stored = world.metadata.inner().to_vec();
    let bytes = noise(MB as usize, 3);
    let block = &bytes[number * 512..][..512];
    stored
        .windows(512)
        .position(|window| window == block)
        .unwrap() as u64
}

/// The range of tags and data; other tests cover the structures before them.
#[test]
fn every_flipped_byte_is_noticed_or_does_not_matter() {
    cases(100, 64, |u| {
        let world = written_world(Algorithm::Crc32c);
        let first_tag = data_start(&world) - 4 * KB;
        let at = u.int_in_range(first_tag..=MB - 1)?;
        flip(&world, at);
        let volume = world.open(Mode::Direct);
        let mut buf = vec![0; volume.size() as usize];
        match volume.read_at(&mut buf, 0) {
            Ok(()) => assert_eq!(buf, noise(buf.len(), 3), "{at}"),
            Err(error) => {
                let is_one_block = matches!(error, Error::Mismatch { more: 0, .. });
                assert!(is_one_block, "{at}: {error:?}");
            }
        }
        Ok(())
    });
}
