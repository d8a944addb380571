//! The power fails at any point, also while the volume is being opened after the last time.

use std::{
    env,
    ops::{ControlFlow, Range},
    sync::Arc,
    time::Duration,
};

use proptest::prelude::*;
use verimount_integrity::{
    Algorithm, BlockSize, Devices, Error, FormatOptions, Interleave, Mode, OpenOptions, Volume,
};
use verimount_source::WriteAt;
use verimount_testkit::{Power, Volatile};

use crate::common::{KB, World, integrity, key};

/// How many crashes are tried: a few, or as many as `PROPTEST_CASES` says.
fn cases() -> u32 {
    env::var("PROPTEST_CASES").map_or(600, |cases| cases.parse().unwrap())
}

/// Blocks of a volume, and how many of them are used.
const BLOCK: usize = 512;
const BLOCKS: usize = 60;

#[derive(Debug, Clone)]
enum Action {
    /// Blocks, and what is written to each of them.
    Write(Range<usize>, u8),
    Zero(Range<usize>),
    Discard(Range<usize>),
    Flush,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let range =
        || (0..BLOCKS, 1..20usize).prop_map(|(start, len)| start..(start + len).min(BLOCKS));
    let action = prop_oneof![
        8 => (range(), 1u8..=255).prop_map(|(range, byte)| Action::Write(range, byte)),
        1 => range().prop_map(Action::Zero),
        1 => range().prop_map(Action::Discard),
        3 => Just(Action::Flush),
    ];
    prop::collection::vec(action, 1..40)
}

/// What each block may hold after a crash.
struct Expected {
    /// What the last flush has made sure of, and everything that was written since.
    allowed: Vec<Vec<u8>>,
    /// Whether a crash may have met the block while it was being written.
    in_flight: Vec<bool>,
}

impl Expected {
    fn new() -> Self {
        Self {
            allowed: vec![vec![0]; BLOCKS],
            in_flight: vec![false; BLOCKS],
        }
    }

    fn write(&mut self, range: Range<usize>, byte: u8) {
        for block in range {
            self.allowed[block].push(byte);
            self.in_flight[block] = true;
        }
    }

    fn flush(&mut self) {
        for versions in &mut self.allowed {
            versions.drain(..versions.len() - 1);
        }
        self.in_flight.fill(false);
    }
}

fn world(has_mac: bool) -> World {
    let mut integrity = integrity(Algorithm::Crc32c);
    integrity.journal_mac = has_mac.then(|| (Algorithm::HmacSha256, key(9)));
    let options = FormatOptions {
        integrity,
        block_size: BlockSize::SECTOR,
        interleave: Some(Interleave::new(32).unwrap()),
        // A few sections, so that the ring goes around.
        journal_sectors: Some(4 * 180),
        ..FormatOptions::default()
    };
    World::new(512 * KB, options).unwrap()
}

fn open(world: &World, storage: Arc<dyn WriteAt>, mode: Mode) -> Result<Volume, Error> {
    let options = OpenOptions {
        allow_discards: true,
        // At each flush.
        bitmap_clear_interval: Duration::ZERO,
        ..world.open_options(mode)
    };
    let volume = Volume::open(Devices::new(storage), &options)?;
    volume.recalculate(&mut |_| ControlFlow::Continue(()))?;
    Ok(volume)
}

/// Does as much as there is power for.
fn run(volume: &Volume, actions: &[Action], expected: &mut Expected) -> Result<(), Error> {
    let bytes = |range: &Range<usize>| ((range.start * BLOCK) as u64, (range.len() * BLOCK) as u64);
    for action in actions {
        match action {
            Action::Write(range, byte) => {
                expected.write(range.clone(), *byte);
                volume.write_at(&vec![*byte; range.len() * BLOCK], bytes(range).0)?;
            }
            Action::Zero(range) => {
                expected.write(range.clone(), 0);
                volume.write_zeroes(bytes(range).0, bytes(range).1)?;
            }
            Action::Discard(range) => {
                expected.write(range.clone(), 0);
                volume.discard(bytes(range).0, bytes(range).1)?;
            }
            Action::Flush => {
                volume.flush()?;
                expected.flush();
            }
        }
    }
    Ok(())
}

/// Opens the volume as often as the power fails meanwhile.
fn reopen(world: &World, mut stored: Vec<u8>, mode: Mode, seed: u64) -> Volume {
    for round in 1.. {
        // A little more power each time, so that it comes to an end.
        let power = Power::for_actions(seed % 7 + round * round);
        let storage = Arc::new(Volatile::new(stored, power.clone()));
        match open(world, storage.clone(), mode) {
            Ok(volume) => return volume,
            Err(error) => assert!(power.is_off(), "{error}"),
        }
        stored = storage.after_crash(seed.wrapping_add(round));
    }
    unreachable!("there is enough power in the end")
}

/// Compares every block with what it may hold.
fn check(volume: &Volume, expected: &Expected, mode: Mode) {
    for block in 0..BLOCKS {
        let mut buf = [0; BLOCK];
        match volume.read_at(&mut buf, (block * BLOCK) as u64) {
            Ok(()) => {
                let is_allowed = expected.allowed[block]
                    .iter()
                    .any(|&byte| buf == [byte; BLOCK]);
                assert!(
                    is_allowed,
                    "block {block}: {} is none of {:?}",
                    buf[0], expected.allowed[block]
                );
            }
            Err(Error::Mismatch { .. }) => {
                assert!(
                    mode == Mode::Direct && expected.in_flight[block],
                    "block {block} is lost"
                );
            }
            Err(error) => panic!("block {block}: {error}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn what_was_flushed_survives(
        mode in prop_oneof![Just(Mode::Journal), Just(Mode::Bitmap), Just(Mode::Direct)],
        has_mac: bool,
        actions in actions(),
        power in 1u64..150,
        seed: u64,
    ) {
        let world = world(has_mac);
        let power = Power::for_actions(power);
        let storage = Arc::new(Volatile::new(world.metadata.inner().to_vec(), power));
        let mut expected = Expected::new();
        if let Ok(volume) = open(&world, storage.clone(), mode)
            && run(&volume, &actions, &mut expected).is_ok()
        {
            let _ = volume.close();
        }
        let volume = reopen(&world, storage.after_crash(seed), mode, seed);
        check(&volume, &expected, mode);
    }
}
