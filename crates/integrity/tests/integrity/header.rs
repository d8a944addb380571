//! Superblocks that are damaged, and restored from a copy or from what is known.

use std::num::NonZeroUsize;

use verimount_integrity::{
    Algorithm, CheckedHeader, DiskSize, Error, FormatOptions, Header, Integrity, Interleave, Mode,
    Padding, RestoreOptions, SECTOR, Superblock, TagSize, Usage, Volume, check_header, grow,
};
use verimount_source::WriteAt;
use verimount_testkit::{go_on, noise};

use crate::common::{KB, MB, World, contents, integrity, key, memory};

/// The size of a superblock in bytes.
const HEADER: usize = 4096;

/// Small volumes of each kind.
fn kinds() -> Vec<FormatOptions> {
    let usual = FormatOptions {
        journal_sectors: Some(200),
        ..FormatOptions::default()
    };
    let keyed = Integrity {
        journal_mac: Some((Algorithm::HmacSha256, key(2))),
        ..integrity(Algorithm::HmacSha256)
    };
    vec![
        usual.clone(),
        FormatOptions {
            hmac_fix: false,
            padding: Padding::Legacy,
            ..usual.clone()
        },
        FormatOptions {
            tag_size: Some(TagSize::new(1).unwrap()),
            interleave: Some(Interleave::new(8).unwrap()),
            ..usual.clone()
        },
        FormatOptions {
            integrity: keyed,
            ..usual
        },
    ]
}

/// A volume of 2 MB with contents, which are returned.
fn filled(options: FormatOptions) -> (World, Vec<u8>) {
    let world = World::new(2 * MB, options).unwrap();
    let volume = world.open(Mode::Journal);
    let bytes = noise(volume.size() as usize, 1);
    volume.write_at(&bytes, 0).unwrap();
    volume.close().unwrap();
    (world, bytes)
}

fn header_of(world: &World) -> Header {
    Header::read(&*world.metadata).unwrap()
}

fn overwrite_superblock(world: &World, bytes: &[u8]) {
    world.metadata.write_all_at(bytes, 0).unwrap();
}

fn options(world: &World) -> RestoreOptions {
    RestoreOptions {
        integrity: world.options.integrity.clone(),
        ..RestoreOptions::default()
    }
}

/// Compares a superblock with a volume, and returns it with how many sectors are bad.
fn check(
    world: &World,
    header: &Header,
    options: &RestoreOptions,
) -> Result<(CheckedHeader, u64), Error> {
    let mut bad = 0;
    let checked = check_header(
        &world.devices(),
        header,
        options,
        NonZeroUsize::new(2).unwrap(),
        &mut |range| bad += range.sectors.end - range.sectors.start,
        &mut go_on,
    )?;
    Ok((checked, bad))
}

/// Restores the superblock, and returns how many sectors are bad.
fn restore(world: &World, header: &Header, options: &RestoreOptions) -> Result<u64, Error> {
    let (checked, bad) = check(world, header, options)?;
    checked.restore(&world.devices(), &options.integrity)?;
    Ok(bad)
}

/// What the volume holds, when it is opened for writing.
fn read_again(world: &World) -> Vec<u8> {
    let volume = world.open(Mode::Journal);
    let bytes = contents(&volume);
    volume.close().unwrap();
    bytes
}

#[test]
fn a_copy_restores_what_is_damaged() {
    for kind in kinds() {
        let (world, bytes) = filled(kind);
        let header = header_of(&world);
        let superblock = world.metadata.inner().to_vec()[..HEADER].to_vec();
        let damaged = (0..64).map(|at| {
            let mut damaged = superblock.clone();
            damaged[at] ^= 1 << (at % 8);
            damaged
        });
        let before = world.metadata.inner().to_vec();
        for damaged in damaged.chain([vec![0; HEADER], noise(HEADER, 1)]) {
            overwrite_superblock(&world, &damaged);
            assert_eq!(restore(&world, &header, &options(&world)).unwrap(), 0);
            assert!(world.metadata.inner().to_vec() == before);
        }
        assert!(read_again(&world) == bytes);
    }
}

/// A copy is written as a file holds it.
#[test]
fn a_copy_of_a_copy_is_the_same() {
    let (world, _) = filled(kinds().remove(3));
    let header = header_of(&world);
    let bytes = header.to_bytes();
    assert!(bytes[..] == world.metadata.inner().to_vec()[..HEADER]);
    let again = Header::read(&bytes[..]).unwrap();
    assert_eq!(again.superblock(), header.superblock());
}

#[test]
fn with_a_copy_a_volume_is_read_and_not_changed() {
    let (world, bytes) = filled(kinds().remove(0));
    let header = header_of(&world);
    overwrite_superblock(&world, &[0; HEADER]);
    let stored = world.metadata.inner().to_vec();
    let open = |mode| {
        let devices = world.devices().with_header(header.clone());
        Volume::open(devices, &world.open_options(mode))
    };
    for mode in [Mode::ReadOnly, Mode::RecoveryUnverified] {
        assert!(contents(&open(mode).unwrap()) == bytes);
    }
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        let error = open(mode).unwrap_err();
        assert!(
            matches!(error, Error::Usage(Usage::HeaderReadOnly)),
            "{error}"
        );
    }
    assert!(world.metadata.inner().to_vec() == stored);
}

/// Damaged blocks stay bad.
#[test]
fn a_restored_superblock_blesses_nothing() {
    let (world, _) = filled(kinds().remove(0));
    let mut header = header_of(&world).to_bytes();
    // It was copied in bitmap mode, while the tags from 0 on were recalculated.
    header[24] |= 0x02 | 0x04;
    header[29] = 12;
    let header = Header::read(&header[..]).unwrap();
    let size = world.metadata.inner().to_vec().len() as u64;
    world.metadata.write_all_at(&[1; 4096], size / 2).unwrap();
    overwrite_superblock(&world, &[0; HEADER]);

    assert_eq!(restore(&world, &header, &options(&world)).unwrap(), 8);
    let restored = Superblock::read(&*world.metadata).unwrap();
    assert!(!restored.dirty_bitmap);
    assert_eq!(restored.recalculation_sector(), None);
    let volume = world.open(Mode::Journal);
    assert_eq!(volume.recalculation_sector(), None);
    let mut buf = vec![0; volume.size() as usize];
    assert!(matches!(
        volume.read_at(&mut buf, 0),
        Err(Error::Mismatch { .. })
    ));
}

#[test]
fn superblocks_of_other_volumes_are_refused() {
    let kinds = kinds();
    let worlds: Vec<World> = kinds.iter().map(|kind| filled(kind.clone()).0).collect();
    let mut headers: Vec<Header> = worlds.iter().map(header_of).collect();
    // Another salt, another layout, another place of everything.
    headers.push(header_of(&filled(kinds[0].clone()).0));
    for (at, byte) in [(9, 14), (10, 8), (12, 2), (28, 2)] {
        let mut bytes = headers[0].to_bytes();
        bytes[at] = byte;
        headers.push(Header::read(&bytes[..]).unwrap());
    }
    for (number, world) in worlds.iter().enumerate() {
        let before = world.metadata.inner().to_vec();
        for (other, header) in headers.iter().enumerate() {
            if other != number {
                restore(world, header, &options(world)).unwrap_err();
                assert!(
                    world.metadata.inner().to_vec() == before,
                    "{number} {other}"
                );
            }
        }
    }
}

/// A disk that has grown is not cut.
#[test]
fn the_size_is_what_the_tags_say() {
    let mut kind = kinds().remove(0);
    kind.disk_size = Some(DiskSize::new(MB).unwrap());
    let (world, _) = filled(kind);
    let header = header_of(&world);
    let size = |bytes| Some(DiskSize::new(bytes).unwrap());
    let grown = |bytes| {
        let options = world.open_options(Mode::Journal);
        grow(world.devices(), &options, size(bytes), &mut go_on).unwrap();
    };
    let with_size = |bytes| RestoreOptions {
        disk_size: size(bytes),
        ..options(&world)
    };
    let is_size = |result: Result<u64, Error>| {
        assert!(
            matches!(result, Err(Error::Usage(Usage::SizeUnknown))),
            "{result:?}"
        );
    };
    assert_eq!(restore(&world, &header, &options(&world)).unwrap(), 0);
    // By one block.
    grown(MB + 4096);
    is_size(restore(&world, &header, &options(&world)));
    assert_eq!(restore(&world, &header, &with_size(MB + 4096)).unwrap(), 0);
    let restored = Superblock::read(&*world.metadata).unwrap();
    assert_eq!(restored.provided_data_sectors * SECTOR, MB + 4096);
    // The copy's last block is not the disk's.
    let larger = Header::read(
        &{
            let mut bytes = header.to_bytes();
            bytes[16..24].copy_from_slice(&((MB + 8192) / SECTOR).to_le_bytes());
            bytes
        }[..],
    )
    .unwrap();
    is_size(restore(&world, &larger, &options(&world)));
    assert_eq!(restore(&world, &larger, &with_size(MB + 8192)).unwrap(), 8);
}

/// Whether the size is asked for; with the right one, the superblock is restored, and so many sectors are bad.
fn size_must_be_named(world: &World, bad: u64) {
    let header = header_of(world);
    let refused = restore(world, &header, &options(world));
    assert!(
        matches!(refused, Err(Error::Usage(Usage::SizeUnknown))),
        "{refused:?}"
    );
    let named = RestoreOptions {
        disk_size: world.options.disk_size,
        ..options(world)
    };
    assert_eq!(restore(world, &header, &named).unwrap(), bad);
}

/// Damage at the end may be that the disk ends elsewhere.
#[test]
fn a_bad_last_block_leaves_the_size_uncertain() {
    let kind = FormatOptions {
        disk_size: Some(DiskSize::new(MB).unwrap()),
        ..kinds().remove(0)
    };
    let (world, bytes) = filled(kind);
    let last = &bytes[bytes.len() - 4096..];
    let stored = world.metadata.inner().to_vec();
    let place = stored.windows(4096).position(|found| found == last);
    let place = place.unwrap() as u64;
    world.metadata.write_all_at(&[!last[0]], place).unwrap();
    size_must_be_named(&world, 8);
}

/// Where tags have no room for all data, nothing tells where the disk might end.
#[test]
fn a_larger_data_device_leaves_the_size_uncertain() {
    let kind = FormatOptions {
        disk_size: Some(DiskSize::new(MB).unwrap()),
        ..kinds().remove(0)
    };
    let (tags, data) = (memory(512 * KB), memory(1024 * MB));
    size_must_be_named(&World::on(tags, Some(data), kind).unwrap(), 0);
}

/// What was written and is in the journal only is kept.
#[test]
fn the_journal_stays() {
    let world = World::new(2 * MB, kinds().remove(0)).unwrap();
    let volume = world.open(Mode::Journal);
    volume.write_at(&[7; 4096], 0).unwrap();
    volume.flush().unwrap();
    drop(volume);
    let header = header_of(&world);
    overwrite_superblock(&world, &[0; HEADER]);
    restore(&world, &header, &options(&world)).unwrap();
    assert!(read_again(&world)[..4096] == [7; 4096]);
}

/// A crash in bitmap mode leaves no journal: what was being written is bad, and not more.
#[test]
fn a_bitmap_is_replaced_where_that_is_asked_for() {
    let world = World::new(2 * MB, kinds().remove(0)).unwrap();
    let header = header_of(&world);
    let volume = world.open(Mode::Bitmap);
    volume.write_at(&[7; 4096], 0).unwrap();
    volume.flush().unwrap();
    drop(volume);
    overwrite_superblock(&world, &[0; HEADER]);
    let before = world.metadata.inner().to_vec();
    let error = restore(&world, &header, &options(&world)).unwrap_err();
    assert!(matches!(error, Error::Corrupt(_)), "{error}");
    assert!(world.metadata.inner().to_vec() == before);
    let options = RestoreOptions {
        new_journal: true,
        ..options(&world)
    };
    assert_eq!(restore(&world, &header, &options).unwrap(), 0);
    assert!(read_again(&world)[..4096] == [7; 4096]);
}

#[test]
fn superblocks_are_rebuilt_from_options() {
    for kind in kinds() {
        let (world, bytes) = filled(kind.clone());
        let stored = world.metadata.inner().to_vec();
        let rebuilt = || Header::rebuilt(&world.devices(), &kind);
        // All but the salt is lost, or that, too.
        overwrite_superblock(&world, &[0xff; 48]);
        let header = rebuilt().unwrap();
        assert_eq!(check(&world, &header, &options(&world)).unwrap().1, 0);
        overwrite_superblock(&world, &[0; HEADER]);
        if kind.hmac_fix {
            assert!(matches!(rebuilt(), Err(Error::Usage(Usage::SaltLost))));
        } else {
            let header = rebuilt().unwrap();
            assert_eq!(check(&world, &header, &options(&world)).unwrap().1, 0);
        }
        restore(&world, &header, &options(&world)).unwrap();
        assert!(world.metadata.inner().to_vec() == stored);
        assert!(read_again(&world) == bytes);
    }
}

/// Options other than those that the volume was formatted with are refused.
#[test]
fn wrong_options_rebuild_nothing() {
    let (world, _) = filled(kinds().remove(1));
    overwrite_superblock(&world, &[0; HEADER]);
    let right = world.options.clone();
    let wrong = [
        FormatOptions {
            padding: Padding::Fixed,
            ..right.clone()
        },
        FormatOptions {
            journal_sectors: Some(800),
            ..right.clone()
        },
        FormatOptions {
            interleave: Some(Interleave::new(128).unwrap()),
            ..right.clone()
        },
        FormatOptions {
            tag_size: Some(TagSize::new(3).unwrap()),
            ..right.clone()
        },
        FormatOptions {
            integrity: integrity(Algorithm::Crc32),
            ..right
        },
    ];
    for (number, wrong) in wrong.iter().enumerate() {
        let header = Header::rebuilt(&world.devices(), wrong).unwrap();
        let options = RestoreOptions {
            integrity: wrong.integrity.clone(),
            ..RestoreOptions::default()
        };
        restore(&world, &header, &options).expect_err(&number.to_string());
    }
}
