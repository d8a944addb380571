//! Compares verified images with plain files and other read-only file systems.

mod build;
mod compression;
mod digest;
mod memory;
mod mount_time;
mod random;
mod requests;
mod sequential;
mod subjects;
mod tree;

use std::{fs, path::PathBuf};

use anyhow::Result;

use crate::{
    data,
    lab::{Format, Lab},
    latency,
    mounts::Sealed,
    report::{Bar, Report},
};

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let large = Large::make(lab)?;
    digest::run(lab, report, &large)?;
    sequential::cold(lab, report, &large)?;
    sequential::warm(lab, report, &large)?;
    random::run(lab, report, &large)?;
    requests::run(lab, report, &large)?;
    let slow = latency::run(lab, report)?;
    report.require(latency::REQUIREMENT, Bar::AtMost(1.1), "x", slow);
    mount_time::run(lab, report, &large)?;
    memory::run(lab, report, &large)?;
    tree::run(lab, report)
}

/// The large file: plain, sealed by a sidecar, and in an image.
struct Large {
    plain: PathBuf,
    bytes: u64,
    sealed: Sealed,
    image: Sealed,
}

impl Large {
    /// The name of the file, also in a mount.
    const NAME: &str = "large.bin";

    fn make(lab: &Lab) -> Result<Self> {
        let folder = lab.path("large");
        fs::create_dir(&folder)?;
        let plain = folder.join(Self::NAME);
        let bytes = lab.sizes.file;
        data::write_file(&plain, bytes)?;
        Ok(Self {
            // The image first: the sidecar will be in the same folder.
            image: lab.image(Format::Romfs, &folder, lab.path("large.img"))?,
            sealed: Sealed {
                digest: lab.seal(&plain)?,
                source: plain.clone(),
            },
            plain,
            bytes,
        })
    }

    /// The file's size, for output.
    fn size(&self) -> String {
        match self.bytes {
            bytes if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
            bytes => format!("{} MiB", bytes >> 20),
        }
    }
}
