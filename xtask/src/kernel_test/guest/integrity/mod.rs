//! Volumes that the kernel and we write in turn hold what either wrote.

mod attached;
mod exercise;
mod kind;

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Result;
use verimount_integrity::{
    BlockSize, Devices, FormatOptions, Integrity, Key, OpenOptions, TagSize, Volume, format,
};
use verimount_source::{FileStorage, WriteAt};
use verimount_testkit::noise;

use self::{
    attached::Attached,
    exercise::{exercise, exercise_kernel, writes},
    kind::{JOURNAL_MAC, Kind, kinds},
};
use super::{scratch::Scratch, tests::Tests};

/// The size of a volume's device, and of its data device if it has one, in bytes.
const DEVICE: u64 = 4 << 20;

/// Who uses a volume.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Kernel,
    Verimount,
}

pub(super) fn run(tests: &Tests, scratch: &Scratch) -> Result<()> {
    for kind in kinds() {
        for first in [Side::Kernel, Side::Verimount] {
            let test = format!("{}, formatted by {first:?}", kind.describe());
            tests.test(&test, || {
                Bench::new(scratch, kind.clone())?.take_turns(first)
            });
        }
    }
    Ok(())
}

/// A volume and what it should hold.
struct Bench {
    kind: Kind,
    device: PathBuf,
    data_device: Option<PathBuf>,
    key_file: PathBuf,
    contents: Vec<u8>,
}

impl Bench {
    fn new(scratch: &Scratch, kind: Kind) -> Result<Self> {
        let data_device = kind
            .has_data_device
            .then(|| scratch.file("data device", DEVICE));
        let key_file = scratch.path().join("key");
        fs::write(&key_file, noise(32, 7))?;
        Ok(Self {
            kind,
            device: scratch.file("device", DEVICE)?,
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
            Side::Kernel => Attached::new(&self)?.format()?,
            Side::Verimount => {
                let mut go_on = |_| ControlFlow::Continue(());
                format(self.devices()?, &self.format_options()?, &mut go_on)?;
            }
        }
        for (turn, side) in [first, second, first, second].into_iter().enumerate() {
            let writes = writes(turn as u64);
            match side {
                Side::Kernel => {
                    let attached = Attached::new(&self)?;
                    let opened = attached.open()?;
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

    fn devices(&self) -> Result<Devices> {
        let open =
            |path: &Path| Ok::<Arc<dyn WriteAt>, anyhow::Error>(Arc::new(FileStorage::open(path)?));
        let device = open(&self.device)?;
        Ok(match &self.data_device {
            Some(data) => Devices::with_data_device(device, open(data)?),
            None => Devices::new(device),
        })
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
