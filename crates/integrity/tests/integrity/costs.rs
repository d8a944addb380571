//! Measures how much metadata is read and written. The 64 MiB here stand for the 1 GiB of the
//! benchmarks; the ratios are the same.

use verimount_integrity::{FormatOptions, Mode, OpenOptions, Volume};
use verimount_testkit::noise;

use crate::common::{KB, MB, World};

const DATA: u64 = 64 * MB;
const REQUEST: u64 = 64 * KB;

/// An unused volume of at least `DATA` bytes.
fn world() -> World {
    // The journal is as large as that of a volume of 1 GiB.
    let options = FormatOptions {
        journal_sectors: Some((1 << 30) / 512 / 128),
        ..FormatOptions::default()
    };
    World::new(DATA + 16 * MB, options).unwrap()
}

/// The cost of sequential writes.
struct Cost {
    reads: u64,
    bytes_read: u64,
    /// Bytes written per byte of data.
    ratio: f64,
}

/// Writes nearly `DATA` bytes from `start` on, with a flush after every `flush_every` bytes.
fn write_in_order(mode: Mode, start: u64, flush_every: u64) -> Cost {
    write(mode, start, flush_every, false)
}

fn write(mode: Mode, start: u64, flush_every: u64, tag_read_back: bool) -> Cost {
    let world = world();
    let options = OpenOptions {
        tag_read_back,
        // The probe would read some tags.
        probe: false,
        ..world.open_options(mode)
    };
    let volume = Volume::open(world.devices(), &options).unwrap();
    let (reads, writes) = (world.metadata.counts(), world.metadata.write_counts());
    let bytes = noise(REQUEST as usize, 1);
    for offset in (start..start + DATA - MB).step_by(REQUEST as usize) {
        volume.write_at(&bytes, offset).unwrap();
        if (offset - start + REQUEST).is_multiple_of(flush_every) {
            volume.flush().unwrap();
        }
    }
    volume.flush().unwrap();
    let reads_after = world.metadata.counts();
    let written = world.metadata.write_counts().bytes - writes.bytes;
    Cost {
        reads: reads_after.requests - reads.requests,
        bytes_read: reads_after.bytes - reads.bytes,
        ratio: written as f64 / (DATA - MB) as f64,
    }
}

const MODES: [(Mode, f64); 3] = [
    (Mode::Direct, 1.002),
    (Mode::Bitmap, 1.002),
    (Mode::Journal, 2.05),
];

#[test]
fn whole_tag_sectors_are_never_read() {
    for (mode, ratio) in MODES {
        let cost = write_in_order(mode, 0, u64::MAX);
        assert_eq!(cost.reads, 0, "{mode}");
        assert!(cost.ratio <= ratio, "{mode}: {}", cost.ratio);
    }
}

/// 1 MiB has 256 tags of 4 bytes: two whole sectors.
#[test]
fn flushes_between_whole_sectors_of_tags_read_nothing() {
    for (mode, _) in MODES {
        let cost = write_in_order(mode, 0, MB);
        assert_eq!(cost.reads, 0, "{mode}");
    }
}

#[test]
fn other_flushes_read_two_sectors_at_most() {
    for (mode, _) in MODES {
        let cost = write_in_order(mode, REQUEST, MB);
        let flushes = DATA / MB;
        assert!(cost.reads > 0, "{mode}: the test has no effect");
        assert!(cost.reads <= 2 * flushes, "{mode}: {}", cost.reads);
        assert_eq!(cost.bytes_read, cost.reads * 512, "{mode}");
    }
}

/// The reads that the tag cache saves.
#[test]
fn each_sector_of_tags_is_read_back_where_that_is_asked_for() {
    // In journal mode, some blocks have not been written in place at the end.
    for (mode, ratio) in [MODES[0], MODES[1]] {
        let cost = write(mode, 0, u64::MAX, true);
        // A sector has the tags of 128 blocks.
        assert_eq!(cost.reads, (DATA - MB) / (128 * 4 * KB), "{mode}");
        assert_eq!(cost.bytes_read, cost.reads * 512, "{mode}");
        assert!(cost.ratio <= ratio, "{mode}: {}", cost.ratio);
    }
}

#[test]
fn random_writes_read_the_tags_once_at_most() {
    for (mode, _) in MODES {
        let world = world();
        let volume = world.open(mode);
        let before = world.metadata.counts().bytes;
        let blocks = DATA / (4 * KB);
        let bytes = noise(4 * KB as usize, 1);
        for number in 0..blocks {
            // A factor coprime to the number of blocks: each block once, out of order.
            let block = number * 6151 % blocks;
            volume.write_at(&bytes, block * 4 * KB).unwrap();
            if number % 1000 == 0 {
                volume.flush().unwrap();
            }
        }
        volume.flush().unwrap();
        let read = world.metadata.counts().bytes - before;
        assert!(read <= blocks * 4, "{mode}: {read}");
    }
}

/// The tags of 16 MiB, one area, are read in one request.
#[test]
fn sequential_reads_load_tags_ahead() {
    let world = world();
    let volume = world.open(Mode::Direct);
    let before = world.metadata.counts();
    let mut buf = vec![0; REQUEST as usize];
    for offset in (0..DATA).step_by(REQUEST as usize) {
        volume.read_at(&mut buf, offset).unwrap();
    }
    let after = world.metadata.counts();
    let data_requests = DATA / REQUEST;
    let tag_requests = after.requests - before.requests - data_requests;
    // One more for the first read, which is not yet known to be sequential.
    assert!(tag_requests <= DATA / (16 * MB) + 1, "{tag_requests}");
    // That one reads a page.
    assert!(after.bytes - before.bytes <= DATA / 1024 + DATA + 4 * KB);
}

/// Even with the smallest cache, sequential writes need no reads.
#[test]
fn a_small_cache_writes_whole_sectors_first() {
    let world = world();
    let options = OpenOptions {
        cache_bytes: 0,
        ..world.open_options(Mode::Direct)
    };
    let volume = Volume::open(world.devices(), &options).unwrap();
    let before = world.metadata.counts().requests;
    let bytes = noise(REQUEST as usize, 1);
    for offset in (0..DATA).step_by(REQUEST as usize) {
        volume.write_at(&bytes, offset).unwrap();
    }
    volume.flush().unwrap();
    assert_eq!(world.metadata.counts().requests, before);
}
