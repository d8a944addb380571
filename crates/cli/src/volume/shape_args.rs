use anyhow::Result;
use clap::Args;
use verimount_host::volume::{
    BlockSize, DiskSize, FormatOptions, Interleave, Padding, SECTOR, TagSize,
};

use super::args::IntegrityArgs;
use crate::options::{of_size, parse_size};

/// The layout of a volume.
#[derive(Args)]
pub(super) struct ShapeArgs {
    /// Block size, 512, 1K, 2K or 4K; each block has one tag
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = of_size(BlockSize::new))]
    sector_size: BlockSize,
    /// Size of a tag in bytes, if not the full digest of the algorithm
    #[arg(long, value_name = "BYTES", value_parser = parse_tag_size)]
    tag_size: Option<TagSize>,
    /// Number of data sectors (of 512 bytes) between two runs of tags: a power of two, by default
    /// 32768
    #[arg(long, value_name = "N", value_parser = of_size(Interleave::new))]
    interleave_sectors: Option<Interleave>,
    /// Size of the journal; by default 1/128 of the data, at most 64M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    journal_size: Option<u64>,
    /// Use the padding of kernels before 5.12
    #[arg(long)]
    integrity_legacy_padding: bool,
    /// Use neither a salt nor MACs over positions, as older kernels do
    #[arg(long)]
    integrity_legacy_hmac: bool,
}

impl ShapeArgs {
    pub(super) fn options(
        &self,
        integrity: &IntegrityArgs,
        disk_size: Option<DiskSize>,
    ) -> Result<FormatOptions> {
        Ok(FormatOptions {
            integrity: integrity.integrity()?,
            block_size: self.sector_size,
            tag_size: self.tag_size,
            interleave: self.interleave_sectors,
            padding: if self.integrity_legacy_padding {
                Padding::Legacy
            } else {
                Padding::Fixed
            },
            journal_sectors: self.journal_size.map(|size| size / SECTOR),
            disk_size,
            hmac_fix: !self.integrity_legacy_hmac,
            ..FormatOptions::default()
        })
    }
}

fn parse_tag_size(text: &str) -> Result<TagSize, String> {
    let bytes = u16::try_from(parse_size(text)?).unwrap_or(u16::MAX);
    TagSize::new(bytes).map_err(|error| error.to_string())
}
