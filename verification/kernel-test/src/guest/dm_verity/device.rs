use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use verimount_support::{command, loop_device::LoopDevice};

use super::Bench;

/// The name of the kernel's device.
const NAME: &str = "verified";

/// The kernel's device. It is closed when this is dropped.
pub(super) struct Device {
    /// Detached when the device is closed.
    _loops: [LoopDevice; 2],
}

impl Device {
    pub(super) fn open(bench: &Bench) -> Result<Self> {
        let data = LoopDevice::attach(&bench.image, &[])?;
        let hashes = LoopDevice::attach(&bench.hashes, &[])?;
        let mut open = veritysetup("open");
        open.arg(data.path()).arg(NAME).arg(hashes.path());
        open.arg(&bench.root_hash);
        open.arg(format!("--hash-offset={}", bench.hash_offset));
        command::stdout(&mut open)?;
        Ok(Self {
            _loops: [data, hashes],
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        Path::new("/dev/mapper").join(NAME)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Err(error) = command::stdout(veritysetup("close").arg(NAME)) {
            eprintln!("{error:#}");
        }
    }
}

pub(super) fn veritysetup(action: &str) -> Command {
    let mut command = Command::new("veritysetup");
    command.env("DM_DISABLE_UDEV", "1").arg(action);
    command
}
