use std::fmt::Display;

use anyhow::Result;
use clap::{Args, ValueEnum};
use verimount::{
    ImageFormat, RefusedLosses, RomfsOptions,
    options::{
        ClusterSize, Codec, Compression, ErofsBlockSize, ErofsOptions, ErofsVolumeName, Loss,
        RomfsBlockSize, RomfsImageOptions, RomfsVolumeName,
    },
};

use crate::{
    message::wrong_usage,
    options::{Auto, of_size, one_of, parse_auto_size},
};

/// The format of an image, and its options.
#[derive(Args)]
pub(crate) struct FormatArgs {
    /// The format: erofs keeps everything; romfs is simpler, and keeps neither owners, times, permissions
    /// nor extended attributes
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Erofs)]
    format: Format,
    /// The size of the image's blocks, by which the data of larger files is aligned: a power of two, for erofs
    /// from 512 to 64K, for romfs from 1K to 1M; auto is 4K, the largest that most kernels read
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = parse_auto_size)]
    block_size: Auto<u64>,
    /// Compress the contents of an erofs image. lz4 has levels from 1 to 12, by default 1, and is decompressed fastest; zstd
    /// has 1 to 22, by default 3, and takes least space. Files with holes are not compressed
    #[arg(long, value_name = "lz4|zstd[,LEVEL]")]
    compress: Option<Codec>,
    /// The most compressed bytes that are stored together, and so are read and decompressed together: a power of two up to 1M,
    /// by default 64K. Larger clusters take less space, smaller ones less time for reading a part
    #[arg(long, value_name = "SIZE", value_parser = of_size(ClusterSize::try_from), requires = "compress")]
    cluster: Option<ClusterSize>,
    /// The volume's name, up to 16 bytes for erofs and 128 for romfs
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    volume_name: String,
    /// Also store files in romfs that not everybody may read; in the image, everybody may read them
    #[arg(long)]
    widen_permissions: bool,
    /// Fail if the image would lose anything, or any of these. An erofs image loses nothing
    #[arg(long, value_name = "LOSS", value_parser = one_of(Loss::REFUSABLE, Loss::name), num_args = 0.., value_delimiter = ',', require_equals = true)]
    strict: Option<Vec<Loss>>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Erofs,
    Romfs,
}

impl FormatArgs {
    pub(crate) fn options(&self) -> Result<ImageFormat> {
        match self.format {
            Format::Erofs => Ok(ImageFormat::Erofs(self.erofs()?)),
            Format::Romfs if self.compress.is_some() => {
                Err(wrong_usage("--compress is for erofs images"))
            }
            Format::Romfs => {
                let refused = match self.strict.as_deref() {
                    None => RefusedLosses::None,
                    Some([]) => RefusedLosses::All,
                    Some(losses) => RefusedLosses::These(losses.to_vec()),
                };
                Ok(ImageFormat::Romfs(RomfsOptions {
                    image: self.romfs()?,
                    widen_permissions: self.widen_permissions,
                    refused_losses: refused,
                }))
            }
        }
    }

    fn erofs(&self) -> Result<ErofsOptions> {
        Ok(ErofsOptions {
            volume_name: self.volume_name(ErofsVolumeName::new)?,
            block_size: self.block_size(ErofsBlockSize::try_from)?,
            compression: self.compress.map(|codec| Compression {
                codec,
                cluster: self.cluster.unwrap_or_default(),
            }),
        })
    }

    fn romfs(&self) -> Result<RomfsImageOptions> {
        Ok(RomfsImageOptions {
            volume_name: self.volume_name(RomfsVolumeName::new)?,
            block_size: self.block_size(RomfsBlockSize::try_from)?,
        })
    }

    fn volume_name<'a, T, E: Display>(&'a self, new: fn(&'a [u8]) -> Result<T, E>) -> Result<T> {
        new(self.volume_name.as_bytes())
            .map_err(|reason| wrong_usage(format_args!("--volume-name: {reason}")))
    }

    /// The size of blocks; by default that of the format.
    fn block_size<T: Default, E: Display>(&self, new: fn(u64) -> Result<T, E>) -> Result<T> {
        let size = self.block_size.0.map_or_else(|| Ok(T::default()), new);
        size.map_err(|reason| wrong_usage(format_args!("--block-size: {reason}")))
    }
}
