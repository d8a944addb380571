//! Recovery of the journal when a volume is opened.

use verimount_integrity::{Algorithm, Corruption, Error, FormatOptions, Integrity, Mode, Volume};
use verimount_source::{ReadAt, WriteAt};
use verimount_testkit::{cases, noise};

use crate::common::{KB, MB, World, contents, key};

fn world(journal_mac: bool) -> World {
    let options = FormatOptions {
        integrity: Integrity {
            journal_mac: journal_mac.then(|| (Algorithm::HmacSha256, key(9))),
            ..Integrity::default()
        },
        ..FormatOptions::default()
    };
    World::new(16 * MB, options).unwrap()
}

/// A volume that was written and flushed but not closed: the bytes are only in the journal.
fn crashed_world(journal_mac: bool) -> (World, Vec<u8>) {
    let world = world(journal_mac);
    let volume = world.open(Mode::Journal);
    let bytes = noise(100 * KB as usize, 4);
    volume.write_at(&bytes, MB).unwrap();
    volume.flush().unwrap();
    drop(volume);
    (world, bytes)
}

#[test]
fn every_mode_replays_committed_sections() {
    for journal_mac in [false, true] {
        for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
            let (world, bytes) = crashed_world(journal_mac);
            let mut buf = vec![0; bytes.len()];
            let before = world.open(Mode::RecoveryUnverified);
            before.read_at(&mut buf, MB).unwrap();
            assert_ne!(buf, bytes, "the journal was not needed");
            world.open(mode).read_at(&mut buf, MB).unwrap();
            assert_eq!(buf, bytes);
        }
    }
}

/// No block matches then, but not because of a wrong algorithm.
#[test]
fn a_volume_all_of_which_is_in_the_journal_can_be_opened() {
    const JOURNAL_SECTORS: u64 = 15 * 392;
    let options = FormatOptions {
        journal_sectors: Some(JOURNAL_SECTORS),
        ..FormatOptions::default()
    };
    let world = World::new(4 * MB, options).unwrap();
    let volume = world.open(Mode::Journal);
    let bytes = noise(volume.size() as usize, 4);
    volume.write_at(&bytes, 0).unwrap();
    volume.flush().unwrap();
    drop(volume);
    let tags = 4 * KB + JOURNAL_SECTORS * 512;
    let in_place = vec![7; (4 * MB - tags) as usize];
    world.metadata.write_all_at(&in_place, tags).unwrap();
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        let volume = world.open(mode);
        assert!(contents(&volume) == bytes);
        volume.close().unwrap();
    }
}

#[test]
fn replaying_twice_is_replaying_once() {
    let (world, bytes) = crashed_world(false);
    drop(world.open(Mode::Journal));
    let once = world.metadata.inner().to_vec();
    drop(world.open(Mode::Journal));
    assert_eq!(world.metadata.inner().to_vec(), once);
    let volume = world.open(Mode::Journal);
    assert_eq!(contents(&volume)[MB as usize..][..bytes.len()], bytes);
}

#[test]
fn a_closed_volume_has_nothing_to_replay() {
    let world = world(false);
    let volume = world.open(Mode::Journal);
    volume.write_at(&noise(3 * MB as usize, 4), 0).unwrap();
    volume.close().unwrap();
    let writes = world.metadata.write_counts();
    drop(world.open(Mode::Journal));
    assert_eq!(world.metadata.write_counts().bytes, writes.bytes);
}

#[test]
fn the_journal_needs_its_own_key() {
    let (world, _) = crashed_world(true);
    let mut options = world.open_options(Mode::Journal);
    options.integrity.journal_mac = None;
    assert!(matches!(
        Volume::open(world.devices(), &options),
        Err(Error::Usage(_))
    ));
    options.integrity.journal_mac = Some((Algorithm::HmacSha256, key(1)));
    let result = Volume::open(world.devices(), &options);
    assert!(matches!(
        result,
        Err(Error::Corrupt(Corruption::SuperblockMac))
    ));
}

/// A corrupted byte of the journal is detected or has no effect: replay never writes anything
/// that no client wrote. A section with a wrong commit id, or one of another sequence number,
/// counts as not committed.
#[test]
fn a_changed_journal_gives_no_wrong_bytes() {
    cases(200, 64, |u| {
        let at = 4 * KB + u.int_in_range(0..=128 * KB - 1)?;
        let bit = u.int_in_range(0..=7)?;
        let (world, bytes) = crashed_world(u.arbitrary()?);
        let mut byte = [0];
        world.metadata.read_exact_at(&mut byte, at).unwrap();
        byte[0] ^= 1 << bit;
        world.metadata.write_all_at(&byte, at).unwrap();
        let Ok(volume) = Volume::open(world.devices(), &world.open_options(Mode::Journal)) else {
            return Ok(());
        };
        let mut buf = vec![0; 4096];
        for block in 0..bytes.len() / 4096 {
            match volume.read_at(&mut buf, MB + block as u64 * 4096) {
                Ok(()) => {
                    let is_new = buf == bytes[block * 4096..][..4096];
                    assert!(is_new || buf == [0; 4096], "{at} {bit}");
                }
                Err(error) => {
                    let is_mismatch = matches!(error, Error::Mismatch { .. });
                    assert!(is_mismatch, "{at} {bit}: {error:?}");
                }
            }
        }
        Ok(())
    });
}
