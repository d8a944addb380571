//! Verimount finishes a recalculation that the kernel has begun, and the other way round.

use std::{
    fs::{self, File},
    ops::ControlFlow,
    os::unix::fs::FileExt,
};

use anyhow::{Result, bail, ensure};
use verimount_integrity::{Algorithm, Error, Mode, OpenOptions, Superblock, Volume};
use verimount_source::FileSource;

use super::{
    Bench, DEVICE, Side,
    attached::Attached,
    blocks::{Blocks, blocks, ensure_same},
    exercise::{check, fit, writes},
    kind::Kind,
};
use crate::guest::{scratch::Scratch, tests::Tests};

/// The sizes of the devices, in bytes, when the kernel is interrupted: it recalculates 16 MiB at a time.
/// If it reaches the end before it could be interrupted, the next size is tried.
const LARGE_DEVICES: [u64; 5] = [64 << 20, 64 << 20, 128 << 20, 128 << 20, 256 << 20];

pub(super) fn run(tests: &Tests, scratch: &Scratch) {
    for kind in kinds() {
        for first in [Side::Kernel, Side::Verimount] {
            let test = format!("{}, begun by {first:?}", kind.describe());
            tests.test(&test, || match first {
                Side::Kernel => begun_by_kernel(scratch, &kind),
                Side::Verimount => begun_by_us(&Bench::new(scratch, kind.clone(), DEVICE)?),
            });
        }
    }
}

fn kinds() -> Vec<Kind> {
    let mut kinds = vec![Kind {
        algorithm: Algorithm::HmacSha256,
        has_journal_mac: true,
        ..Kind::default()
    }];
    for (algorithm, block_size, has_data_device) in [
        (Algorithm::Crc32c, 512, false),
        (Algorithm::Crc32c, 4096, true),
        (Algorithm::Sha256, 512, true),
    ] {
        kinds.push(Kind {
            algorithm,
            block_size,
            has_data_device,
            ..Kind::default()
        });
    }
    kinds
}

fn begun_by_kernel(scratch: &Scratch, kind: &Kind) -> Result<()> {
    for size in LARGE_DEVICES {
        let bench = Bench::new(scratch, kind.clone(), size)?;
        let attached = Attached::new(&bench)?;
        if let Some(position) = interrupt_kernel(&attached)? {
            return finish(&attached, position);
        }
    }
    bail!("the kernel could not be interrupted")
}

/// Verimount continues at the sector that the kernel had reached.
fn finish(attached: &Attached, position: u64) -> Result<()> {
    let bench = attached.bench;
    let volume = Volume::open(bench.devices()?, &bench.open_options()?)?;
    ensure!(
        volume.recalculation_sector() == Some(position),
        "Verimount does not continue where the kernel stopped"
    );
    volume.recalculate(&mut |_| ControlFlow::Continue(()))?;
    let found = checked_blocks(volume)?;
    ensure_kernel_finds(&found, attached)
}

/// Has the kernel begin on devices where no tag matches, and stops it after the beginning. Returns the
/// sector that it reached, unless that is the end.
fn interrupt_kernel(attached: &Attached) -> Result<Option<u64>> {
    for path in attached.bench.paths() {
        let size = fs::metadata(path)?.len();
        let file = File::create(path)?;
        file.set_len(size)?;
        for piece in &writes(0) {
            let (offset, bytes) = fit(piece, size);
            file.write_all_at(bytes, offset)?;
        }
    }
    attached.format(&["--no-wipe"])?;
    let opened = attached.open(&["--integrity-recalculate"])?;
    opened.wait_for_recalculation_to_begin()?;
    drop(opened);
    interrupted_at(attached.bench)
}

/// Simulates a crash in bitmap mode before the tags are on the device. In another mode it is then unknown
/// which tags are valid.
fn begun_by_us(bench: &Bench) -> Result<()> {
    bench.format(None)?;
    let bitmap = OpenOptions {
        mode: Mode::Bitmap,
        ..bench.open_options()?
    };
    let volume = Volume::open(bench.devices()?, &bitmap)?;
    for piece in &writes(0) {
        let (offset, bytes) = fit(piece, volume.size());
        volume.write_at(bytes, offset)?;
    }
    let written = blocks(&volume)?;
    drop(volume);
    let volume = Volume::open(bench.devices()?, &bench.open_options()?)?;
    let interrupted = volume.recalculate(&mut |_| ControlFlow::Break(()));
    ensure!(
        matches!(interrupted, Err(Error::Cancelled)),
        "not interrupted: {interrupted:?}"
    );
    volume.close()?;
    let position = interrupted_at(bench)?;
    ensure!(position.is_some(), "not interrupted in the middle");

    let attached = Attached::new(bench)?;
    let opened = attached.open(&[])?;
    opened.wait_for_recalculation()?;
    drop(opened);
    ensure_kernel_finds(&written, &attached)?;
    let volume = Volume::open(bench.devices()?, &bench.open_options()?)?;
    ensure!(
        checked_blocks(volume)? == written,
        "Verimount reads something else"
    );
    Ok(())
}

/// The sector at which recalculation continues, if that is neither the beginning nor the end.
fn interrupted_at(bench: &Bench) -> Result<Option<u64>> {
    let superblock = Superblock::read(&FileSource::open(&bench.device)?)?;
    Ok(superblock.recalculation_sector().filter(|&at| at > 0))
}

/// The blocks of a volume whose tags are all valid, with recalculation complete.
fn checked_blocks(volume: Volume) -> Result<Blocks> {
    let unchecked = volume.recalculation_sector();
    ensure!(unchecked.is_none(), "unchecked from {unchecked:?} on");
    check(&volume)?;
    let found = blocks(&volume)?;
    volume.close()?;
    Ok(found)
}

/// Fails unless the kernel can read all blocks, they have this content, and recalculation is complete.
fn ensure_kernel_finds(expected: &Blocks, attached: &Attached) -> Result<()> {
    let opened = attached.open(&[])?;
    let unchecked = opened.recalculation_sector()?;
    ensure!(
        unchecked.is_none(),
        "the kernel does not check from {unchecked:?} on"
    );
    let block_len = attached.bench.kind.block_size as usize;
    ensure_same(expected, &opened.blocks(block_len)?)
}
