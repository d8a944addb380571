//! Writes become durable after a while even if no client flushes.

use std::{sync::Arc, time::Duration};

use verimount_integrity::{CommitTimer, Devices, FormatOptions, Mode, OpenOptions, Volume};
use verimount_source::MemoryStorage;
use verimount_testkit::{Fault, Faulty, eventually, noise};

use crate::common::{MB, World, storage_of};

const TIME: Duration = Duration::from_millis(1);

/// A way to change a volume.
type Change = fn(&Volume);

const CHANGES: [Change; 5] = [
    |volume| volume.write_at(&noise(8192, 1), 4096).unwrap(),
    |volume| volume.write_at(&noise(100, 2), 5000).unwrap(),
    |volume| volume.write_zeroes(4096, 4096).unwrap(),
    |volume| volume.discard(8192, 4096).unwrap(),
    |volume| volume.punch_hole(1000, 3000).unwrap(),
];

#[test]
fn every_change_is_flushed() {
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        let world = World::new(2 * MB, FormatOptions::default()).unwrap();
        let options = OpenOptions {
            allow_discards: true,
            ..world.open_options(mode)
        };
        let volume = Arc::new(Volume::open(world.devices(), &options).unwrap());
        let timer = CommitTimer::start(&volume, TIME).unwrap();
        let flushes = || world.metadata.write_counts().flushes;
        for change in CHANGES {
            let before = flushes();
            change(&volume);
            let mut expected = vec![0; 16384];
            volume.read_at(&mut expected, 0).unwrap();
            // The state after a crash. The change may include a flush of its own, so the first
            // flush is not necessarily the timer's.
            let is_kept = || {
                let left = storage_of(world.metadata.inner().to_vec());
                let left = Volume::open(Devices::new(left), &options).unwrap();
                let mut found = vec![0; expected.len()];
                left.read_at(&mut found, 0).is_ok() && found == expected
            };
            eventually("the change is kept", || flushes() > before && is_kept());
        }
        // The timer has ended, and released the volume.
        drop(timer);
        Arc::into_inner(volume).unwrap().close().unwrap();
    }
}

/// The timer has no caller to report a failure to, so every later request reports it.
#[test]
fn a_failure_latches_the_volume() {
    for mode in [Mode::Journal, Mode::Direct] {
        let world = World::new(2 * MB, FormatOptions::default()).unwrap();
        let memory = MemoryStorage::new(world.metadata.inner().to_vec());
        // In direct mode, one write precedes the flush.
        let good = u64::from(mode == Mode::Direct);
        let storage = Arc::new(Faulty::new(memory, Fault::Write, good));
        let opened = Volume::open(Devices::new(storage), &world.open_options(mode));
        let volume = Arc::new(opened.unwrap());
        let _timer = CommitTimer::start(&volume, TIME).unwrap();
        volume.write_at(&[1; 4096], 0).unwrap();
        eventually("the failure is known", || volume.failure().is_some());
        assert!(volume.write_at(&[2; 4096], 0).is_err(), "{mode}");
        let mut read = [0; 4096];
        volume.read_at(&mut read, 0).unwrap();
        assert_eq!(read, [1; 4096]);
    }
}
