//! After a crash, the kernel and Verimount recover the same contents of a volume.

use std::{fs, ops::ControlFlow, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use verimount_integrity::{Algorithm, Mode, OpenOptions, SECTOR, Volume};
use verimount_source::MemoryStorage;
use verimount_testkit::{Random, Recording};

use super::{
    Bench, DEVICE,
    attached::Attached,
    blocks::{Blocks, blocks, ensure_same},
    exercise::{fit, writes},
    in_order,
    kind::Kind,
};
use crate::guest::{scratch::Scratch, tests::Tests};

/// The size of the journal in sectors: a few sections, which are written several times.
const JOURNAL: u64 = 1200;

/// The most states that are tried of each kind of volume.
const STATES: usize = 10;

/// In at least this many of them recovery must have something to do.
const LEAST_TO_RECOVER: usize = STATES / 3;

pub(super) fn run(tests: &Tests, scratch: &Scratch) -> Result<()> {
    for kind in kinds() {
        let what = kind.describe();
        let bench = Bench::new(scratch, kind, DEVICE)?;
        let mut random = Random::new(STATES as u64);
        let recording = record(&bench, &mut random)?;
        let attached = Attached::new(&bench)?;
        let events = recording.events();
        let mut to_recover = 0;
        for point in recording.crash_points().step_by(events.div_ceil(STATES)) {
            let state = point.any_state(&mut random);
            let test = format!("{what}: a crash in event {} of {events}", point.events);
            tests.test(&test, || {
                to_recover += usize::from(agree(&attached, state)?);
                Ok(())
            });
        }
        tests.test(&format!("{what}: enough states need recovery"), || {
            ensure!(to_recover >= LEAST_TO_RECOVER, "in {to_recover} states");
            Ok(())
        });
    }
    Ok(())
}

/// The kinds whose recovery differs.
fn kinds() -> Vec<Kind> {
    let mut kinds = vec![
        Kind::default(),
        Kind {
            algorithm: Algorithm::HmacSha256,
            has_journal_mac: true,
            ..Kind::default()
        },
    ];
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        for (block_size, has_data_device) in [(512, false), (4096, true)] {
            kinds.push(Kind {
                mode,
                block_size,
                has_data_device,
                ..Kind::default()
            });
        }
    }
    kinds
}

/// All writes to the devices of a volume that is written and sometimes flushed.
fn record(bench: &Bench, random: &mut Random) -> Result<Recording> {
    bench.format(Some(JOURNAL))?;
    let devices = bench.paths().map(fs::read);
    let mut devices = devices.collect::<Result<Vec<_>, _>>()?;
    if bench.kind.mode == Mode::Bitmap {
        begin_bitmap(&mut devices[0]);
    }
    let recording = Recording::new(devices);
    let options = OpenOptions {
        cache_bytes: 0,
        bitmap_clear_interval: Duration::ZERO,
        ..bench.open_options()?
    };
    let volume = Volume::open(in_order(recording.devices())?, &options)?;
    // Bits stay set for this long.
    volume.recalculate(&mut |_| ControlFlow::Continue(()))?;
    for piece in &writes(0) {
        let (offset, bytes) = fit(piece, volume.size());
        volume.write_at(bytes, offset)?;
        if random.below(4) == 0 {
            volume.flush()?;
        }
    }
    Ok(recording)
}

/// Sets in the superblock that there is a bitmap, with a bit per block; usually one covers more than the
/// whole volume. Some bits are set, as the journal's content is read as the bitmap.
fn begin_bitmap(device: &mut [u8]) {
    const FLAGS: usize = 24;
    const DIRTY_BITMAP: u8 = 4;
    const LOG2_BLOCKS_PER_BIT: usize = 29;
    device[FLAGS] |= DIRTY_BITMAP;
    device[LOG2_BLOCKS_PER_BIT] = 0;
}

/// Fails unless the kernel and Verimount read the same after a crash. Returns whether recovery was needed,
/// or in a mode without recovery, whether some blocks could not be read.
fn agree(attached: &Attached, state: Vec<Vec<u8>>) -> Result<bool> {
    let bench = attached.bench;
    for (path, bytes) in bench.paths().zip(&state) {
        fs::write(path, bytes)?;
    }
    let Recovered { blocks, had_to_be } = Recovered::new(bench, state)?;
    let sectors_per_bit = bench.kind.block_size / SECTOR;
    let sectors_per_bit = format!("--bitmap-sectors-per-bit={sectors_per_bit}");
    let options = match bench.kind.mode {
        Mode::Bitmap => &[sectors_per_bit.as_str()][..],
        _ => &[],
    };
    let opened = attached.open(options)?;
    opened.wait_for_recalculation()?;
    ensure_same(&blocks, &opened.blocks(bench.kind.block_size as usize)?)?;
    Ok(had_to_be)
}

/// The result with Verimount.
struct Recovered {
    blocks: Blocks,
    had_to_be: bool,
}

impl Recovered {
    fn new(bench: &Bench, state: Vec<Vec<u8>>) -> Result<Self> {
        let memory: Vec<_> = state
            .into_iter()
            .map(MemoryStorage::new)
            .map(Arc::new)
            .collect();
        let open = |options| -> Result<Volume> {
            Ok(Volume::open(in_order(memory.iter().cloned())?, &options)?)
        };
        let in_place = blocks(&open(OpenOptions {
            mode: Mode::RecoveryUnverified,
            ..bench.open_options()?
        })?)?;
        let volume = open(bench.open_options()?)?;
        let is_unchecked = volume.recalculation_sector().is_some();
        volume.recalculate(&mut |_| ControlFlow::Continue(()))?;
        let blocks = blocks(&volume)?;
        let is_whole = blocks.iter().all(Option::is_some);
        ensure!(
            is_whole || volume.mode() == Mode::Direct,
            "not all blocks can be read"
        );
        let had_to_be = match volume.mode() {
            Mode::Bitmap => is_unchecked,
            // What was replayed, and the blocks that do not match.
            _ => blocks != in_place,
        };
        Ok(Self { blocks, had_to_be })
    }
}
