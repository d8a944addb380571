//! Volumes that the kernel and Verimount write in turns contain what both wrote.

mod attached;
mod blocks;
mod crashes;
mod exercise;
mod kind;
mod recalculation;
mod spread;

use std::{
    fs::{self, File},
    num::NonZeroUsize,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use verimount_integrity::{
    BlockSize, Devices, FormatOptions, Header, Integrity, Key, OpenOptions, RestoreOptions,
    TagSize, Volume, check_header, format,
};
use verimount_source::{FileSource, FileStorage, WriteAt};
use verimount_support::command;
use verimount_testkit::noise;

use self::{
    attached::Attached,
    exercise::{exercise, exercise_kernel, writes},
    kind::{Kind, kinds},
};
use super::{scratch::Scratch, tests::Tests};
use crate::integritysetup::{JOURNAL_MAC, KEY_SIZE};

/// The size of a volume's device, and of its data device if there is one, in bytes.
const DEVICE: u64 = 4 << 20;

/// The size of a superblock in bytes.
const SUPERBLOCK: usize = 4096;

/// The side that uses a volume.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Kernel,
    Verimount,
}

pub(super) fn run(tests: &Tests, scratch: &Scratch, verimount: &Path) -> Result<()> {
    for kind in kinds() {
        for first in [Side::Kernel, Side::Verimount] {
            let test = format!("{}, formatted by {first:?}", kind.describe());
            tests.test(&test, || {
                Bench::new(scratch, kind.clone(), DEVICE)?.take_turns(first)
            });
        }
    }
    crashes::run(&Tests::new("dm-integrity after crashes"), scratch)?;
    recalculation::run(&Tests::new("dm-integrity recalculation"), scratch);
    let damage = Tests::new("damage below file systems");
    spread::run(&damage, scratch, verimount)
}

/// A volume and its expected contents.
struct Bench {
    kind: Kind,
    device: PathBuf,
    data_device: Option<PathBuf>,
    key_file: PathBuf,
    contents: Vec<u8>,
}

impl Bench {
    /// A volume on zeroed devices of `size` bytes each.
    fn new(scratch: &Scratch, kind: Kind, size: u64) -> Result<Self> {
        let data_device = kind
            .has_data_device
            .then(|| scratch.file("data device", size));
        let key_file = scratch.path().join("key");
        fs::write(&key_file, noise(KEY_SIZE, 7))?;
        Ok(Self {
            kind,
            device: scratch.file("device", size)?,
            data_device: data_device.transpose()?,
            key_file,
            contents: Vec::new(),
        })
    }

    fn take_turns(mut self, first: Side) -> Result<()> {
        let second = match first {
            Side::Kernel => Side::Verimount,
            Side::Verimount => Side::Kernel,
        };
        match first {
            Side::Kernel => Attached::new(&self)?.format(&[])?,
            Side::Verimount => self.format(None)?,
        }
        let header = Header::read(&FileSource::open(&self.device)?)?;
        for (turn, side) in [first, second, first, second].into_iter().enumerate() {
            self.lose_superblock(&header)?;
            let writes = writes(turn as u64);
            match side {
                Side::Kernel => {
                    let attached = Attached::new(&self)?;
                    let opened = attached.open(&[])?;
                    self.contents = exercise_kernel(&opened.path(), &self.contents, &writes)?;
                }
                Side::Verimount => {
                    let volume = Volume::open(self.devices()?, &self.open_options()?)?;
                    self.contents = exercise(volume, &self.contents, &writes)?;
                }
            }
        }
        Ok(())
    }

    /// Restores the superblock from a copy, after it was overwritten.
    fn lose_superblock(&self, header: &Header) -> Result<()> {
        let dump = || {
            let mut dump = Command::new("integritysetup");
            let shown = command::stdout(dump.arg("dump").arg(&self.device))?;
            // Whoever opens it in bitmap mode notes its own size of regions.
            let lines = shown
                .lines()
                .filter(|line| !line.starts_with("log2_blocks_per_bitmap"));
            anyhow::Ok(lines.map(str::to_owned).collect::<Vec<_>>())
        };
        let before = dump()?;
        let file = File::options().write(true).open(&self.device)?;
        file.write_all_at(&[0; SUPERBLOCK], 0)?;
        let options = RestoreOptions {
            integrity: self.integrity()?,
            ..RestoreOptions::default()
        };
        let mut bad = 0;
        let devices = self.devices()?;
        let checked = check_header(
            &devices,
            header,
            &options,
            NonZeroUsize::MIN,
            &mut |_| bad += 1,
            &mut |_| ControlFlow::Continue(()),
        )?;
        checked.restore(&devices, &options.integrity)?;
        ensure!(bad == 0, "{bad} bad ranges");
        ensure!(dump()? == before, "the restored superblock differs");
        Ok(())
    }

    /// Formats it with Verimount, with a journal of this many sectors.
    fn format(&self, journal_sectors: Option<u64>) -> Result<()> {
        let options = FormatOptions {
            journal_sectors,
            ..self.format_options()?
        };
        let mut go_on = |_| ControlFlow::Continue(());
        format(self.devices()?, &options, &mut go_on)?;
        Ok(())
    }

    /// The device and, if there is one, the data device.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let paths = [Some(&self.device), self.data_device.as_ref()];
        paths.into_iter().flatten().map(PathBuf::as_path)
    }

    fn devices(&self) -> Result<Devices> {
        let storages = self.paths().map(FileStorage::open);
        let storages = storages.collect::<Result<Vec<_>, _>>()?;
        in_order(storages.into_iter().map(Arc::new))
    }

    fn integrity(&self) -> Result<Integrity> {
        let key = || Key::read(&self.key_file);
        let tag_key = self.kind.algorithm.is_keyed().then(key);
        let journal_key = self.kind.has_journal_mac.then(key).transpose()?;
        Ok(Integrity {
            algorithm: self.kind.algorithm,
            key: tag_key.transpose()?,
            journal_mac: journal_key.map(|key| (JOURNAL_MAC, key)),
        })
    }

    fn format_options(&self) -> Result<FormatOptions> {
        Ok(FormatOptions {
            integrity: self.integrity()?,
            block_size: BlockSize::new(self.kind.block_size)?,
            tag_size: self.kind.tag_size.map(TagSize::new).transpose()?,
            padding: self.kind.padding,
            is_zero: true,
            ..FormatOptions::default()
        })
    }

    fn open_options(&self) -> Result<OpenOptions> {
        Ok(OpenOptions {
            integrity: self.integrity()?,
            mode: self.kind.mode,
            ..OpenOptions::default()
        })
    }
}

/// The devices of a volume, in the order of a [`Bench`].
fn in_order<D: WriteAt + 'static>(mut devices: impl Iterator<Item = Arc<D>>) -> Result<Devices> {
    let device = devices.next().context("a volume has a device")?;
    Ok(match devices.next() {
        Some(data) => Devices::with_data_device(device, data),
        None => Devices::new(device),
    })
}
