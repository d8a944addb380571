use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use verimount_host::{
    printable,
    volume::{Interleave, Padding, SECTOR, Superblock, VolumeFiles},
};

use crate::Outcome;

/// Show the superblock of a volume; no key is needed
#[derive(Args)]
pub(crate) struct Info {
    /// The volume: a regular file or block device
    #[arg(value_name = "VOLUME")]
    volume: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// What a volume says of itself.
#[derive(Serialize)]
pub(crate) struct VolumeInfo {
    /// As [`printable`] shows it, as not every path is text.
    volume: String,
    /// The size of the disk in bytes.
    size: u64,
    superblock_version: u8,
    sector_size: u64,
    tag_size: u16,
    /// `None` with a separate data device.
    interleave_sectors: Option<u64>,
    journal_sections: u32,
    journal_mac: bool,
    hmac_fix: bool,
    legacy_padding: bool,
    /// Whether the volume is open in bitmap mode, or was when the machine crashed.
    dirty_bitmap: bool,
    /// The first sector that awaits recalculation.
    recalculation_sector: Option<u64>,
}

impl Info {
    pub(crate) fn run(self) -> Result<Outcome> {
        let superblock = VolumeFiles::from(&*self.volume).superblock()?;
        let report = VolumeInfo::new(printable(&self.volume).to_string(), &superblock);
        Outcome::Good.report(self.json.then_some(&report), |out| report.print(out))
    }
}

impl VolumeInfo {
    pub(crate) fn new(volume: String, superblock: &Superblock) -> Self {
        let sectors = |interleave: Interleave| 1 << interleave.log2_sectors();
        Self {
            volume,
            size: superblock.provided_data_sectors * SECTOR,
            superblock_version: superblock.version(),
            sector_size: superblock.shape.block_size.bytes() as u64,
            tag_size: superblock.shape.tag_size.get(),
            interleave_sectors: superblock.shape.interleave.map(sectors),
            journal_sections: superblock.shape.journal_sections.get(),
            journal_mac: superblock.shape.journal_mac,
            hmac_fix: superblock.has_hmac_fix(),
            legacy_padding: superblock.shape.padding == Padding::Legacy,
            dirty_bitmap: superblock.dirty_bitmap,
            recalculation_sector: superblock.recalculation_sector(),
        }
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "size           {} bytes", self.size)?;
        writeln!(out, "version        {}", self.superblock_version)?;
        writeln!(out, "sector size    {} bytes", self.sector_size)?;
        writeln!(out, "tag size       {} bytes", self.tag_size)?;
        match self.interleave_sectors {
            Some(sectors) => writeln!(out, "interleave     {sectors} sectors")?,
            None => writeln!(out, "interleave     none: the data is on a separate device")?,
        }
        let padding = if self.legacy_padding {
            "legacy"
        } else {
            "fixed"
        };
        writeln!(out, "padding        {padding}")?;
        let fix = if self.hmac_fix {
            "fixed, with a salt"
        } else {
            "legacy"
        };
        writeln!(out, "hmac           {fix}")?;
        let mac = if self.journal_mac {
            "with a MAC"
        } else {
            "without MAC"
        };
        writeln!(
            out,
            "journal        {} sections {mac}",
            self.journal_sections
        )?;
        let bitmap = if self.dirty_bitmap {
            "in use, or left by a crash"
        } else {
            "none"
        };
        writeln!(out, "bitmap         {bitmap}")?;
        match self.recalculation_sector {
            Some(sector) => writeln!(out, "recalculation  from sector {sector} on"),
            None => writeln!(out, "recalculation  none"),
        }
    }
}
