use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use verimount_integrity::{Mode, Padding};

use super::{Bench, kind::JOURNAL_MAC};
use crate::{command, kernel_test::guest::scratch::LoopDevice};

/// The name of the kernel's volume.
const NAME: &str = "volume";

/// The devices as the kernel's.
pub(super) struct Attached<'a> {
    bench: &'a Bench,
    device: LoopDevice,
    data_device: Option<LoopDevice>,
}

impl<'a> Attached<'a> {
    pub(super) fn new(bench: &'a Bench) -> Result<Self> {
        let data_device = bench.data_device.as_deref().map(LoopDevice::attach);
        Ok(Self {
            bench,
            device: LoopDevice::attach(&bench.device)?,
            data_device: data_device.transpose()?,
        })
    }

    fn integritysetup(&self, action: &str) -> Command {
        let kind = &self.bench.kind;
        let mut command = Command::new("integritysetup");
        command
            .env("DM_DISABLE_UDEV", "1")
            .args([action, "--batch-mode"]);
        command.arg("--integrity").arg(kind.algorithm.name());
        if kind.algorithm.is_keyed() {
            command
                .arg("--integrity-key-file")
                .arg(&self.bench.key_file);
            command.arg("--integrity-key-size=32");
        }
        if kind.has_journal_mac {
            command.arg("--journal-integrity").arg(JOURNAL_MAC.name());
            command
                .arg("--journal-integrity-key-file")
                .arg(&self.bench.key_file);
            command.arg("--journal-integrity-key-size=32");
        }
        match kind.mode {
            Mode::Bitmap => command.arg("--integrity-bitmap-mode"),
            Mode::Direct => command.arg("--integrity-no-journal"),
            _ => &mut command,
        };
        if let Some(data) = &self.data_device {
            command.arg("--data-device").arg(data.path());
        }
        command
    }

    pub(super) fn format(&self) -> Result<()> {
        let kind = &self.bench.kind;
        let mut format = self.integritysetup("format");
        format.arg("--sector-size").arg(kind.block_size.to_string());
        if let Some(tag_size) = kind.tag_size {
            format.arg("--tag-size").arg(tag_size.to_string());
        }
        if kind.padding == Padding::Legacy {
            format.arg("--integrity-legacy-padding");
        }
        command::stdout(format.arg(self.device.path()))?;
        Ok(())
    }

    pub(super) fn open(&self) -> Result<Opened> {
        command::stdout(
            self.integritysetup("open")
                .arg(self.device.path())
                .arg(NAME),
        )?;
        Ok(Opened)
    }
}

/// The volume that the kernel has open.
pub(super) struct Opened;

impl Opened {
    pub(super) fn path(&self) -> PathBuf {
        Path::new("/dev/mapper").join(NAME)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut close = Command::new("integritysetup");
        close.env("DM_DISABLE_UDEV", "1").args(["close", NAME]);
        if let Err(error) = command::stdout(&mut close) {
            eprintln!("{error:#}");
        }
    }
}
