//! After a failed write or flush, nothing more is written. A failed read ends nothing.

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

/// One write or flush fails: the request that meets it says why, and so do all later ones, though
/// the storage could do them.
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
                // A flush is asked for also after a write that has failed.
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
            // What was written is read, from memory or from where it is.
            let mut buf = [0; 4096];
            volume.read_at(&mut buf, MB).unwrap();
            assert_eq!(buf, [0; 4096]);
            assert!(first.is_none() || volume.close().is_err());
        }
        assert!(failures > 3, "{mode}: this shows nothing");
    }
}

/// One read of the storage fails, of data or of tags: so does the request that meets it, and no other.
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
        assert!(failures > 3, "{mode}: this shows nothing");
    }
}

/// A read of the storage panics, of data or of tags: nobody waits for what it was to bring.
#[test]
fn a_panic_leaves_nothing_locked() {
    /// What is only ever reached if somebody waits for ever.
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
                result.expect("it waits for ever").unwrap();
            }
        }
    }
    assert!(panics > 3, "this shows nothing");
}
