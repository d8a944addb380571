use std::{
    fs::File,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Result, bail};
use rustix::{
    fs::{OFlags, SeekFrom, seek},
    io::Errno,
};
use verimount_integrity::{Mode, Padding};
use verimount_source::AlignedBuf;
use verimount_support::{command, loop_device::LoopDevice};

use super::{
    Bench,
    blocks::{Blocks, all_blocks},
};
use crate::integritysetup::{KEY_SIZE, integritysetup};

/// The name of the kernel's volume.
const NAME: &str = "volume";

/// How often the state of the recalculation is checked.
const PAUSE: Duration = Duration::from_millis(20);

/// The devices as the kernel uses them.
pub(super) struct Attached<'a> {
    pub(super) bench: &'a Bench,
    device: LoopDevice,
    data_device: Option<LoopDevice>,
}

impl<'a> Attached<'a> {
    pub(super) fn new(bench: &'a Bench) -> Result<Self> {
        let attach = |file: &Path| LoopDevice::attach(file, &[]);
        let data_device = bench.data_device.as_deref().map(attach);
        Ok(Self {
            bench,
            device: attach(&bench.device)?,
            data_device: data_device.transpose()?,
        })
    }

    fn integritysetup(&self, action: &str) -> Command {
        let Bench { kind, key_file, .. } = self.bench;
        let journal_key = kind.has_journal_mac.then_some(key_file.as_path());
        let data_device = self.data_device.as_ref().map(LoopDevice::path);
        let mut command = integritysetup(action, journal_key, data_device);
        command.arg("--integrity").arg(kind.algorithm.name());
        if kind.algorithm.is_keyed() {
            command.arg("--integrity-key-file").arg(key_file);
            command.arg(format!("--integrity-key-size={KEY_SIZE}"));
        }
        match kind.mode {
            Mode::Bitmap => command.arg("--integrity-bitmap-mode"),
            Mode::Direct => command.arg("--integrity-no-journal"),
            _ => &mut command,
        };
        command
    }

    pub(super) fn format(&self, options: &[&str]) -> Result<()> {
        let kind = &self.bench.kind;
        let mut format = self.integritysetup("format");
        format.arg("--sector-size").arg(kind.block_size.to_string());
        if let Some(tag_size) = kind.tag_size {
            format.arg("--tag-size").arg(tag_size.to_string());
        }
        if kind.padding == Padding::Legacy {
            format.arg("--integrity-legacy-padding");
        }
        command::stdout(format.args(options).arg(self.device.path()))?;
        Ok(())
    }

    pub(super) fn open(&self, options: &[&str]) -> Result<Opened> {
        let mut open = self.integritysetup("open");
        open.args(options).arg(self.device.path()).arg(NAME);
        command::stdout(&mut open)?;
        Ok(Opened)
    }
}

/// A volume that the kernel has open.
pub(super) struct Opened;

impl Opened {
    pub(super) fn path(&self) -> PathBuf {
        Path::new("/dev/mapper").join(NAME)
    }

    /// The first sector whose tag is still to be recalculated; `None` after the end of the recalculation.
    pub(super) fn recalculation_sector(&self) -> Result<Option<u64>> {
        let mut status = Command::new("dmsetup");
        let status = command::stdout(status.args(["status", NAME]))?;
        // Start, length, target, mismatches; sectors of data, and sectors with valid tags.
        let fields: Vec<&str> = status.split_whitespace().collect();
        let [.., end, sector] = fields[..] else {
            bail!("unexpected output of dmsetup: {status}");
        };
        match sector {
            "-" => Ok(None),
            _ if sector == end => Ok(None),
            _ => Ok(Some(sector.parse()?)),
        }
    }

    /// Waits until the first tags have been recalculated.
    pub(super) fn wait_for_recalculation_to_begin(&self) -> Result<()> {
        while self.recalculation_sector()? == Some(0) {
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits for the end of the recalculation. If it never ends, the guest is silent, which is a failure.
    pub(super) fn wait_for_recalculation(&self) -> Result<()> {
        while self.recalculation_sector()?.is_some() {
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The blocks of `block_len` bytes; `None` for those that the kernel refuses to read.
    pub(super) fn blocks(&self, block_len: usize) -> Result<Blocks> {
        // Bypasses the page cache, which reads whole pages.
        let file = File::options()
            .read(true)
            .custom_flags(OFlags::DIRECT.bits().cast_signed())
            .open(self.path())?;
        let size = seek(&file, SeekFrom::End(0))?;
        let mut aligned = AlignedBuf::default();
        all_blocks(size, block_len, |buf, offset| {
            let aligned = aligned.grown(buf.len());
            match file.read_exact_at(aligned, offset) {
                Ok(()) => buf.copy_from_slice(aligned),
                // A direct read returns this where a cached one returns EIO.
                Err(error) if error.raw_os_error() == Some(Errno::ILSEQ.raw_os_error()) => {
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
            Ok(true)
        })
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
