//! Opens a device that begins with these bytes as a volume, in every mode, and uses it.
//!
//! Behind them there is a volume with nothing wrong, so that what opens can be read, too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use verimount_fuzz::{MODES, SECTOR, Storage};
use verimount_integrity::{Mode, Volume};
use verimount_source::WriteAt;

fuzz_target!(|input: &[u8]| {
    let superblock = &input[..input.len().min(SECTOR)];
    for mode in MODES.into_iter().chain([Mode::RecoveryUnverified]) {
        for has_data_device in [false, true] {
            let storage = Storage::new(has_data_device);
            storage
                .metadata
                .write_all_at(superblock, 0)
                .expect("there is room");
            use_volume(&storage, mode);
        }
    }
});

fn use_volume(storage: &Storage, mode: Mode) {
    let Ok(volume) = storage.open(mode) else {
        return;
    };
    let size = volume.size();
    assert!(size > 0 && size <= storage.size());
    let mut buf = vec![0; 3 * SECTOR];
    for offset in [0, size / 2, size - 1] {
        let len = buf.len().min((size - offset) as usize);
        let _ = volume.read_at(&mut buf[..len], offset);
    }
    write(&volume);
    let _ = volume.close();
}

/// Writes something, which can be read then.
fn write(volume: &Volume) {
    let block = vec![7; volume.superblock().shape.block_size.bytes()];
    let offset = volume.size() - block.len() as u64;
    if volume.write_at(&block, offset).is_ok() {
        let mut found = vec![0; block.len()];
        volume.read_at(&mut found, offset).expect("it was written");
        assert_eq!(found, block);
    }
}
