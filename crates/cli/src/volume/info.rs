use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use verimount_host::{
    printable,
    volume::{Padding, SECTOR, Superblock, VolumeFiles},
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

impl Info {
    pub(crate) fn run(self) -> Result<Outcome> {
        let superblock = VolumeFiles::from(&*self.volume).superblock()?;
        let volume = printable(&self.volume).to_string();
        let json = self.json.then(|| superblock_json(&volume, &superblock));
        Outcome::Good.report(json, |out| print_superblock(out, &superblock))
    }
}

/// What a volume says of itself. Its name is as [`printable`] shows it, as not every path is text.
pub(crate) fn superblock_json(volume: &str, superblock: &Superblock) -> Value {
    json!({
        "volume": volume,
        // The size of the disk in bytes.
        "size": superblock.provided_data_sectors * SECTOR,
        "superblock_version": superblock.version(),
        "sector_size": superblock.shape.block_size.bytes(),
        "tag_size": superblock.shape.tag_size.get(),
        "interleave_sectors": interleave_sectors(superblock),
        "journal_sections": superblock.shape.journal_sections.get(),
        "journal_mac": superblock.shape.journal_mac,
        "hmac_fix": superblock.has_hmac_fix(),
        "legacy_padding": superblock.shape.padding == Padding::Legacy,
        // Whether the volume is open in bitmap mode, or was when the machine crashed.
        "dirty_bitmap": superblock.dirty_bitmap,
        // The first sector that awaits recalculation.
        "recalculation_sector": superblock.recalculation_sector(),
    })
}

/// `None` with a separate data device.
fn interleave_sectors(superblock: &Superblock) -> Option<u64> {
    let interleave = superblock.shape.interleave?;
    Some(1 << interleave.log2_sectors())
}

pub(crate) fn print_superblock(out: &mut impl Write, superblock: &Superblock) -> io::Result<()> {
    let size = superblock.provided_data_sectors * SECTOR;
    writeln!(out, "size           {size} bytes")?;
    writeln!(out, "version        {}", superblock.version())?;
    let sector_size = superblock.shape.block_size.bytes();
    writeln!(out, "sector size    {sector_size} bytes")?;
    writeln!(
        out,
        "tag size       {} bytes",
        superblock.shape.tag_size.get()
    )?;
    match interleave_sectors(superblock) {
        Some(sectors) => writeln!(out, "interleave     {sectors} sectors")?,
        None => writeln!(out, "interleave     none: the data is on a separate device")?,
    }
    let padding = match superblock.shape.padding {
        Padding::Legacy => "legacy",
        Padding::Fixed => "fixed",
    };
    writeln!(out, "padding        {padding}")?;
    let fix = if superblock.has_hmac_fix() {
        "fixed, with a salt"
    } else {
        "legacy"
    };
    writeln!(out, "hmac           {fix}")?;
    let mac = if superblock.shape.journal_mac {
        "with a MAC"
    } else {
        "without MAC"
    };
    writeln!(
        out,
        "journal        {} sections {mac}",
        superblock.shape.journal_sections
    )?;
    let bitmap = if superblock.dirty_bitmap {
        "in use, or left by a crash"
    } else {
        "none"
    };
    writeln!(out, "bitmap         {bitmap}")?;
    match superblock.recalculation_sector() {
        Some(sector) => writeln!(out, "recalculation  from sector {sector} on"),
        None => writeln!(out, "recalculation  none"),
    }
}
