//! After a failed write or flush, nothing more is written. A failed read ends nothing.

use std::sync::Arc;

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
                let result = volume
                    .write_at(&[1; 4096], number * 8192)
                    .and_then(|()| volume.flush());
                match (result, &first) {
                    (Ok(()), None) => {}
                    (Ok(()), Some(_)) => panic!("a write after a failure"),
                    (Err(Error::Latched(reason)), None) => first = Some(reason.to_string()),
                    (Err(Error::Latched(reason)), Some(first)) => {
                        assert_eq!(reason.to_string(), *first);
                    }
                    (Err(error), _) => panic!("{error}"),
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
