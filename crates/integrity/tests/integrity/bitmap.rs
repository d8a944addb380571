//! Bitmap mode, and recalculation.

use std::{ops::ControlFlow, os::unix::fs::FileExt, sync::Arc, thread};

use verimount_integrity::{
    Algorithm, BlockSize, Devices, Error, FormatOptions, Integrity, Mode, OpenOptions, Unsupported,
    Volume,
};
use verimount_source::{FileStorage, ReadAt, WriteAt};
use verimount_testkit::noise;

use crate::common::{KB, MB, World, contents, integrity, key};

const SIZE: u64 = 64 * MB;

/// A volume whose first region was written and that was not closed. Then the byte at offset `bad`
/// of the device was corrupted, which no client wrote.
fn crashed_world(bad: u64) -> World {
    let options = FormatOptions {
        block_size: BlockSize::SECTOR,
        ..FormatOptions::default()
    };
    let world = World::new(SIZE, options).unwrap();
    let volume = world.open(Mode::Bitmap);
    volume.write_at(&noise(MB as usize, 1), 0).unwrap();
    volume.flush().unwrap();
    drop(volume);
    let mut byte = [0];
    world.metadata.read_exact_at(&mut byte, bad).unwrap();
    world.metadata.write_all_at(&[byte[0] ^ 1], bad).unwrap();
    world
}

fn recalculate(volume: &Volume) -> u64 {
    let mut bytes = 0;
    volume
        .recalculate(&mut |more| {
            bytes += more;
            ControlFlow::Continue(())
        })
        .unwrap();
    bytes
}

/// No block matches then, but not because of a wrong algorithm.
#[test]
fn a_volume_that_was_written_all_over_can_be_opened_after_a_crash() {
    for mode in [Mode::Bitmap, Mode::Direct, Mode::Journal] {
        let world = World::new(SIZE, FormatOptions::default()).unwrap();
        let volume = world.open(Mode::Bitmap);
        let bytes = noise(volume.size() as usize, 1);
        volume.write_at(&bytes, 0).unwrap();
        // The tags are still in memory.
        drop(volume);
        let volume = world.open(mode);
        recalculate(&volume);
        assert!(contents(&volume) == bytes);
    }
}

/// The storage may hold anything where a block was discarded. It must not reappear because the
/// block's neighbour was being written during the crash.
#[test]
fn discarded_blocks_stay_discarded() {
    let world = World::new(SIZE, FormatOptions::default()).unwrap();
    let open = |mode| {
        let options = OpenOptions {
            allow_discards: true,
            ..world.open_options(mode)
        };
        Volume::open(world.devices(), &options).unwrap()
    };
    let [old, neighbour] = [1, 2].map(|seed| noise(4096, seed));
    let volume = open(Mode::Direct);
    volume.write_at(&old, 0).unwrap();
    let stored = world.metadata.inner().to_vec();
    let mut blocks = stored.chunks(4096);
    let place = blocks.position(|block| block == old).unwrap() as u64 * 4096;
    volume.discard(0, 4096).unwrap();
    volume.close().unwrap();
    // As if the space had been deallocated but not zeroed.
    world.metadata.write_all_at(&old, place).unwrap();

    let volume = open(Mode::Bitmap);
    volume.write_at(&neighbour, 4096).unwrap();
    drop(volume);
    let volume = open(Mode::Bitmap);
    let expected = [&[0; 4096], &neighbour[..]].concat();
    let mut found = vec![1; 8192];
    volume.read_at(&mut found, 0).unwrap();
    assert!(found == expected, "before its tag is recalculated");
    recalculate(&volume);
    volume.read_at(&mut found, 0).unwrap();
    assert!(found == expected);
}

#[test]
fn only_dirty_regions_get_new_tags() {
    for (bad, is_dirty) in [(4 * MB, true), (40 * MB, false)] {
        let world = crashed_world(bad);
        let volume = world.open(Mode::Bitmap);
        assert_eq!(volume.recalculation_sector(), Some(0));
        // A region that may have been written during the crash is not checked yet.
        let mut buf = vec![0; 8 * MB as usize];
        volume.read_at(&mut buf, 0).unwrap();
        assert!(recalculate(&volume) <= 16 * MB);
        assert_eq!(volume.recalculation_sector(), None);
        volume.close().unwrap();

        let volume = world.open(Mode::Direct);
        let mut buf = vec![0; volume.size() as usize];
        assert_eq!(volume.read_at(&mut buf, 0).is_ok(), is_dirty);
    }
}

/// A bitmap with one bit per block, all set except one: that of a corrupted block.
#[test]
fn blocks_between_dirty_regions_stay_checked() {
    const SIZE: u64 = 512 * KB;
    let options = FormatOptions {
        block_size: BlockSize::SECTOR,
        ..FormatOptions::default()
    };
    let world = World::new(SIZE, options).unwrap();
    world.metadata.write_all_at(&[1], SIZE - 64 * KB).unwrap();
    let volume = world.open(Mode::Direct);
    let mut buf = vec![0; volume.size() as usize];
    let Err(Error::Mismatch { first, .. }) = volume.read_at(&mut buf, 0) else {
        panic!("the corrupted byte was not data");
    };
    let mut bitmap = vec![0xff; 4 * KB as usize];
    bitmap[first.sector as usize / 8] ^= 1 << (first.sector % 8);
    world.metadata.write_all_at(&bitmap, 4 * KB).unwrap();
    // Set the dirty bitmap flag and the blocks per bit in the superblock.
    world.metadata.write_all_at(&[0x1c], 24).unwrap();
    world.metadata.write_all_at(&[0], 29).unwrap();

    let volume = world.open(Mode::Bitmap);
    assert_eq!(recalculate(&volume), volume.size() - 512);
    let result = volume.read_at(&mut buf, 0);
    assert!(matches!(result, Err(Error::Mismatch { more: 0, .. })));
}

#[test]
fn other_modes_recalculate_all_tags() {
    for mode in [Mode::Direct, Mode::Journal] {
        let world = crashed_world(40 * MB);
        let volume = world.open(mode);
        assert_eq!(recalculate(&volume), volume.size());
        contents(&volume);
        volume.close().unwrap();
        assert!(
            !world
                .open(Mode::RecoveryUnverified)
                .superblock()
                .dirty_bitmap
        );
        contents(&world.open(Mode::Direct));
    }
}

#[test]
fn recalculation_continues_where_it_stopped() {
    let world = crashed_world(40 * MB);
    let volume = world.open(Mode::Direct);
    let mut bytes = 0;
    let result = volume.recalculate(&mut |more| {
        bytes += more;
        if bytes >= 20 * MB {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(matches!(result, Err(Error::Cancelled)));
    drop(volume);
    let volume = world.open(Mode::Direct);
    assert_eq!(recalculate(&volume), volume.size() - bytes);
}

#[test]
fn each_block_is_recalculated_once() {
    let world = crashed_world(40 * MB);
    let volume = world.open(Mode::Direct);
    let bytes: u64 = thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| recalculate(&volume)));
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert_eq!(bytes, volume.size());
}

#[test]
fn a_volume_that_was_closed_needs_nothing() {
    let world = World::new(SIZE, FormatOptions::default()).unwrap();
    let volume = world.open(Mode::Bitmap);
    volume.write_at(&noise(MB as usize, 1), 30 * MB).unwrap();
    volume.close().unwrap();
    for mode in [Mode::Bitmap, Mode::Journal, Mode::Direct] {
        let volume = world.open(mode);
        assert_eq!(volume.recalculation_sector(), None);
        volume.close().unwrap();
    }
}

/// A bit covers 16 MiB. Setting one costs a durable write of a page, except for bits that were set
/// ahead of a sequential writer.
#[test]
fn bits_are_set_once_and_ahead() {
    let world = World::new(SIZE, FormatOptions::default()).unwrap();
    let volume = world.open(Mode::Bitmap);
    let before = world.metadata.write_counts().durable;
    for offset in (0..volume.size() - 64 * KB).step_by(64 << 10) {
        volume.write_at(&noise(64 << 10, 1), offset).unwrap();
    }
    assert_eq!(world.metadata.write_counts().durable - before, 3);
}

#[test]
fn keyed_tags_are_recalculated_only_with_a_superblock_mac() {
    for (journal_mac, hmac_fix, is_allowed) in [
        (true, true, true),
        (false, true, false),
        (true, false, false),
        (false, false, false),
    ] {
        let options = FormatOptions {
            integrity: Integrity {
                journal_mac: journal_mac.then(|| (Algorithm::HmacSha256, key(3))),
                ..integrity(Algorithm::HmacSha256)
            },
            hmac_fix,
            ..FormatOptions::default()
        };
        // What could not be used can be known before.
        assert_eq!(options.check_mode(Mode::Bitmap).is_ok(), is_allowed);
        assert_eq!(options.check_mode(Mode::Journal), Ok(()));
        let world = World::new(16 * MB, options).unwrap();
        match Volume::open(world.devices(), &world.open_options(Mode::Bitmap)) {
            Ok(_) => assert!(is_allowed),
            Err(error) => {
                let is_named = matches!(error, Error::Unsupported(Unsupported::KeyedRecalculation));
                assert!(is_named && !is_allowed);
            }
        }
    }
}

/// A bitmap of up to 16 MiB is read. A longer one is refused before reading any of it, as a
/// superblock of 64 bytes in a sparse file can claim any length.
#[test]
fn the_length_of_a_bitmap_is_limited() {
    /// The size of a volume with blocks of one sector, and one bit per block, whose bitmap has the
    /// maximum length.
    const SECTORS: u64 = (16 << 20) * 8;
    /// Sections of 176 sectors each: enough room for the bitmap.
    const JOURNAL_SECTIONS: u32 = 200;
    let superblock = |sectors: u64| {
        let (shape, flags) = ([4, 15, 4, 0], 4 | 8_u32);
        let journal = JOURNAL_SECTIONS.to_le_bytes();
        let parts = [b"integrt\0", &shape[..], &journal, &sectors.to_le_bytes()];
        [&parts.concat()[..], &flags.to_le_bytes(), &[0; 36]].concat()
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(80 << 30).unwrap();
    let open = |sectors, mode| {
        file.as_file()
            .write_all_at(&superblock(sectors), 0)
            .unwrap();
        let storage = FileStorage::open(file.path()).unwrap();
        let options = OpenOptions {
            mode,
            // The file has no valid tags.
            probe: false,
            ..OpenOptions::default()
        };
        Volume::open(Devices::new(Arc::new(storage)), &options)
    };
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        open(SECTORS, mode).unwrap();
        assert!(matches!(
            open(SECTORS + 1, mode),
            Err(Error::Unsupported(Unsupported::BitmapSize(len))) if len == (16 << 20) + 4096
        ));
    }
    open(SECTORS + 1, Mode::RecoveryUnverified).unwrap();
}
