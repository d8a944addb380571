//! Runs in the guest: writes volumes without end.

use std::{
    convert::Infallible,
    fs::{self, File},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use anyhow::{Context, Result};
use clap::Args;
use rustix::fs::OFlags;
use verimount_integrity::{Mode, SECTOR};
use verimount_source::AlignedBuf;
use verimount_support::command;
use verimount_testkit::noise;

use super::{
    KEY_SEED,
    flushed::Flushed,
    kind::{KINDS, Kind},
    sequence::{Sequence, WRITES_PER_FLUSH},
};
use crate::{
    guest,
    integritysetup::{KEY_SIZE, integritysetup},
};

/// The kernel modules that the volumes need.
const MODULES: [&str; 3] = ["crc32c_generic", "dm-integrity", "virtio_blk"];

/// The path of the key of the journal's MAC.
const KEY_FILE: &str = "/run/key";

/// The region of a bit in the bitmap, in sectors: small, so that most of a volume is not dirty.
const SECTORS_PER_BIT: &str = "128";

/// How long bits that are no longer needed stay set, in milliseconds.
const BITMAP_FLUSH_TIME: &str = "100";

/// Used by `kernel-test` in a guest that it kills
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The directory that has the kernel's lib/modules
    #[arg(long)]
    kernel: PathBuf,
}

/// Writes to all volumes at the same time until the machine is killed.
pub(crate) fn run(options: &Options) -> Result<()> {
    guest::load(&MODULES, &options.kernel)?;
    fs::write(KEY_FILE, noise(KEY_SIZE, KEY_SEED))?;
    let (sender, failures) = mpsc::channel();
    for (number, kind) in KINDS.iter().enumerate() {
        // In turns: Linux 6.1 can refuse a volume with `ENOMEM` while it closes another, since the slab
        // caches of both have the same name in sysfs.
        let volume = open(number, kind).with_context(|| kind.describe())?;
        let sender = sender.clone();
        thread::spawn(move || {
            let Err(error) = write_without_end(number, kind, &volume);
            let _ = sender.send(error.context(kind.describe()));
        });
    }
    // Nothing else ends this.
    Err(failures.recv()?)
}

fn write_without_end(number: usize, kind: &Kind, volume: &Path) -> Result<Infallible> {
    let way = |flags: OFlags| {
        let mut options = File::options();
        options.write(true).custom_flags(flags.bits() as i32);
        options.open(volume).context("the volume")
    };
    // Bypassing the page cache and through it, alternating at each flush.
    let ways = [way(OFlags::DIRECT)?, way(OFlags::empty())?];
    let sequence = Sequence::new(number, kind);
    let mut buf = AlignedBuf::default();
    let mut generation = 0;
    loop {
        for way in &ways {
            for _ in 0..WRITES_PER_FLUSH {
                generation += 1;
                let sectors = sequence.write(generation);
                let offset = sectors.start * SECTOR;
                let bytes = buf.grown(((sectors.end - sectors.start) * SECTOR) as usize);
                for (sector, bytes) in sectors.zip(bytes.chunks_mut(SECTOR as usize)) {
                    bytes.copy_from_slice(&sequence.bytes(sector, generation));
                }
                way.write_all_at(bytes, offset)?;
            }
            way.sync_all()?;
            let volume = number;
            println!("{}", Flushed { volume, generation });
        }
    }
}

/// Has the kernel format a volume and open it.
fn open(number: usize, kind: &Kind) -> Result<PathBuf> {
    let name = format!("volume{number}");
    let devices = Kind::devices(number);
    let setup = |action| {
        let key = kind.has_journal_mac.then_some(Path::new(KEY_FILE));
        integritysetup(action, key, devices.get(1).map(PathBuf::as_path))
    };
    let mut format = setup("format");
    format.arg(format!("--sector-size={}", kind.block_size));
    format.arg(format!("--journal-size={}", kind.journal_size));
    command::stdout(format.arg(&devices[0]))?;
    let mut open = setup("open");
    match kind.mode {
        Mode::Bitmap => open
            .arg("--integrity-bitmap-mode")
            .args(["--bitmap-sectors-per-bit", SECTORS_PER_BIT])
            .args(["--bitmap-flush-time", BITMAP_FLUSH_TIME]),
        Mode::Direct => open.arg("--integrity-no-journal"),
        _ => &mut open,
    };
    command::stdout(open.arg(&devices[0]).arg(&name))?;
    Ok(Path::new("/dev/mapper").join(name))
}
