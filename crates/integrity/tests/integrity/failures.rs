//! After a failed write or flush, nothing more is written. A failed read has no lasting effect.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use verimount_integrity::{Devices, Error, FormatOptions, Mode, Volume};
use verimount_source::MemoryStorage;
use verimount_testkit::{Fault, Faulty};

use crate::common::{KB, MB, World};

/// If a write or flush fails, its request and all later ones report why, even though the storage
/// works again.
#[test]
fn a_failure_ends_all_writing_and_no_reading() {
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        let world = World::new(16 * MB, FormatOptions::default()).unwrap();
        let stored = world.metadata.inner().to_vec();
        let mut failures = 0;
        for good in 0..20 {
            let memory = MemoryStorage::new(stored.clone());
            let storage = Arc::new(Faulty::new(memory, Fault::Write, good));
            let devices = Devices::new(storage);
            let Ok(volume) = Volume::open(devices, &world.open_options(mode)) else {
                continue;
            };
            let mut first = None;
            for number in 0..10 {
                // Flush even after a failed write.
                let results = [volume.write_at(&[1; 4096], number * 8192), volume.flush()];
                for result in results {
                    match (result, &first) {
                        (Ok(()), None) => {}
                        (Ok(()), Some(_)) => panic!("a success after a failure"),
                        (Err(Error::Latched(reason)), None) => first = Some(reason.to_string()),
                        (Err(Error::Latched(reason)), Some(first)) => {
                            assert_eq!(reason.to_string(), *first);
                        }
                        (Err(error), _) => panic!("{error}"),
                    }
                }
            }
            assert_eq!(volume.failure(), first);
            failures += u32::from(first.is_some());
            // Earlier writes can be read, from memory or from the storage.
            let mut buf = [0; 4096];
            volume.read_at(&mut buf, MB).unwrap();
            assert_eq!(buf, [0; 4096]);
            assert!(first.is_none() || volume.close().is_err());
        }
        assert!(failures > 3, "{mode}: the test has no effect");
    }
}

/// If a read of data or tags fails, its request fails, and no other.
#[test]
fn a_failed_read_ends_nothing() {
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        let world = World::new(16 * MB, FormatOptions::default()).unwrap();
        let stored = world.metadata.inner().to_vec();
        let mut failures = 0;
        for good in 0..60 {
            let memory = MemoryStorage::new(stored.clone());
            let storage = Arc::new(Faulty::new(memory, Fault::Read, good));
            let devices = Devices::new(storage.clone());
            let Ok(volume) = Volume::open(devices, &world.open_options(mode)) else {
                continue;
            };
            if storage.has_failed() {
                continue;
            }
            for place in (0..10 * MB).step_by(512 * KB as usize) {
                let read = || volume.read_at(&mut [0; 4096], place);
                if let Err(error) = read() {
                    assert!(matches!(error, Error::Source(_)), "{error}");
                    failures += 1;
                    read().unwrap();
                }
            }
            assert_eq!(volume.failure(), None);
            volume.write_at(&[1; 4096], MB).unwrap();
            volume.flush().unwrap();
            volume.close().unwrap();
        }
        assert!(failures > 3, "{mode}: the test has no effect");
    }
}

/// If a read of data or tags panics, no other request waits for its result.
#[test]
fn a_panic_leaves_nothing_locked() {
    /// A generous limit, reached only if a request hangs.
    const PATIENCE: Duration = Duration::from_secs(60);
    let world = World::new(16 * MB, FormatOptions::default()).unwrap();
    let stored = world.metadata.inner().to_vec();
    let mut panics = 0;
    for good in 0..40 {
        let memory = MemoryStorage::new(stored.clone());
        let storage = Arc::new(Faulty::new(memory, Fault::Panic, good));
        let options = world.open_options(Mode::Direct);
        let open = || Volume::open(Devices::new(storage), &options).unwrap();
        let Ok(volume) = catch_unwind(AssertUnwindSafe(open)) else {
            continue;
        };
        let volume = Arc::new(volume);
        for place in (0..10 * MB).step_by(512 * KB as usize) {
            let volume = volume.clone();
            let read = move || volume.read_at(&mut [0; 4096], place);
            if catch_unwind(AssertUnwindSafe(&read)).is_err() {
                panics += 1;
                let (done, result) = mpsc::channel();
                thread::spawn(move || done.send(read()));
                let result = result.recv_timeout(PATIENCE);
                result.expect("a request hangs").unwrap();
            }
        }
    }
    assert!(panics > 3, "the test has no effect");
}
