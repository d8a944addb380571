use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use verimount_host::{
    printable,
    volume::{Padding, SECTOR, Superblock, superblock},
};

use crate::{Outcome, template::print};

/// The [template](print) of what a volume says of itself.
pub(crate) const SUPERBLOCK: &str = "\
volume|size           {size} bytes
volume|version        {superblock_version}
volume|sector size    {sector_size} bytes
volume|tag size       {tag_size} bytes
volume|interleave     {interleave_sectors} sectors
volume|{!interleave_sectors}interleave     none: the data is on a separate device
volume|{legacy_padding}padding        legacy
volume|{!legacy_padding}padding        fixed
volume|{hmac_fix}hmac           fixed, with a salt
volume|{!hmac_fix}hmac           legacy
volume|{journal_mac}journal        {journal_sections} sections with a MAC
volume|{!journal_mac}journal        {journal_sections} sections without MAC
volume|{dirty_bitmap}bitmap         in use, or left by a crash
volume|{!dirty_bitmap}bitmap         none
volume|recalculation  from sector {recalculation_sector} on
volume|{!recalculation_sector}recalculation  none
";

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
        let superblock = superblock(&self.volume)?;
        let volume = printable(&self.volume).to_string();
        let report = superblock_json(&volume, &superblock);
        Outcome::Good.report(self.json.then_some(&report), |out| {
            print(out, SUPERBLOCK, &json!({"volume": report}))
        })
    }
}

/// What a volume says of itself. Its name is as [`printable`] shows it, as not every path is text.
pub(crate) fn superblock_json(volume: &str, superblock: &Superblock) -> Value {
    let interleave = superblock.shape.interleave;
    json!({
        "volume": volume,
        // The size of the disk in bytes.
        "size": superblock.provided_data_sectors * SECTOR,
        "superblock_version": superblock.version(),
        "sector_size": superblock.shape.block_size.bytes(),
        "tag_size": superblock.shape.tag_size.get(),
        // None with a separate data device.
        "interleave_sectors": interleave.map(|interleave| 1_u64 << interleave.log2_sectors()),
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
