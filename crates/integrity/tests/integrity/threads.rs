//! Concurrent use by many threads.

use std::{sync::Barrier, thread, time::Duration};

use verimount_integrity::{BlockSize, FormatOptions, Interleave, Mode, OpenOptions, Volume};

use crate::common::{KB, World};

const THREADS: u64 = 4;
const ROUNDS: u64 = 150;

/// Every thread writes, zeroes, flushes and reads, partly in ranges shared with others. A read
/// always returns the data of a single request.
#[test]
fn a_read_sees_whole_writes() {
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        let options = FormatOptions {
            block_size: BlockSize::SECTOR,
            interleave: Some(Interleave::new(32).unwrap()),
            journal_sectors: Some(4 * 180),
            ..FormatOptions::default()
        };
        let world = World::new(1024 * KB, options).unwrap();
        let options = OpenOptions {
            allow_discards: true,
            cache_bytes: 0,
            bitmap_clear_interval: Duration::ZERO,
            ..world.open_options(mode)
        };
        let volume = Volume::open(world.devices(), &options).unwrap();
        let start = Barrier::new(THREADS as usize);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (volume, start) = (&volume, &start);
                scope.spawn(move || {
                    start.wait();
                    use_volume(volume, thread);
                });
            }
        });
        volume.close().unwrap();
    }
}

fn use_volume(volume: &Volume, thread: u64) {
    // Ranges of 5 KiB each, which begin and end in the middle of blocks.
    const PLACE: usize = 5000;
    for round in 0..ROUNDS {
        let place = (thread * 3 + round * 7) % 8;
        let offset = place * PLACE as u64;
        let mut buf = [0; PLACE];
        match round % 6 {
            0 => volume
                .write_at(&[(thread * ROUNDS + round) as u8; PLACE], offset)
                .unwrap(),
            2 => volume.write_zeroes(offset, PLACE as u64).unwrap(),
            4 => volume.punch_hole(offset, PLACE as u64).unwrap(),
            1 | 3 => {
                volume.read_at(&mut buf, offset).unwrap();
                assert!(buf.iter().all(|&byte| byte == buf[0]), "a torn write");
            }
            _ if round % 5 == 0 => volume.flush().unwrap(),
            _ => {
                // A range that no other thread writes.
                let own = 100_000 + thread * 50_000;
                volume.write_at(&[round as u8; 3000], own).unwrap();
                volume.read_at(&mut buf[..3000], own).unwrap();
                assert_eq!(buf[..3000], [round as u8; 3000]);
            }
        }
    }
}
