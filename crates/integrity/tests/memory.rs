//! Measures the memory that writes in journal mode take.

use std::{fs, sync::Arc};

use verimount_integrity::{Devices, FormatOptions, Mode, OpenOptions, Volume, format};
use verimount_source::{MemoryStorage, WriteAt};
use verimount_testkit::go_on;

const MB: usize = 1 << 20;
const STORAGE: usize = 256 * MB;
const REQUEST: usize = 32 * MB;
const JOURNAL: usize = 8 * MB;

/// What a batch, a piece, the buffers for sections and for blocks brought to their places, and the
/// lists of blocks take besides the journal's contents.
const BESIDES: usize = 12 * MB;

/// The largest request of a client must not be in memory a second time, nor must more of the
/// journal than was allowed.
#[test]
fn large_writes_are_not_held_in_memory_whole() {
    let storage = Arc::new(MemoryStorage::new(vec![0; STORAGE]));
    // The system gives memory only when it is first written.
    for offset in (0..STORAGE).step_by(MB) {
        storage
            .write_all_at(&[0; 64 << 10].repeat(16), offset as u64)
            .unwrap();
    }
    let formatting = FormatOptions {
        is_zero: true,
        journal_sectors: Some((64 * MB / 512) as u64),
        ..FormatOptions::default()
    };
    let devices = Devices::new(storage);
    format(devices.clone(), &formatting, &mut go_on).unwrap();
    let options = OpenOptions {
        mode: Mode::Journal,
        journal_bytes: JOURNAL,
        cache_bytes: MB,
        ..OpenOptions::default()
    };
    let volume = Volume::open(devices, &options).unwrap();
    let bytes = vec![7; REQUEST];
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = most_memory();
    for _ in 0..2 {
        for offset in (0..4 * REQUEST).step_by(REQUEST) {
            volume.write_at(&bytes, offset as u64).unwrap();
        }
    }
    let taken = most_memory() - before;
    assert!(taken <= JOURNAL + BESIDES, "{} KiB", taken >> 10);
    let mut read = vec![0; REQUEST];
    volume.read_at(&mut read, REQUEST as u64).unwrap();
    assert!(read == bytes);
}

/// The most memory that the process had since the mark was reset, in bytes.
fn most_memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() << 10
}
