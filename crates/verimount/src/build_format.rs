use verimount_erofs::Options as ErofsOptions;
use verimount_romfs::Options as RomfsImageOptions;

use crate::RefusedLosses;

/// The format of a new image, with its options.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ImageFormat {
    /// romfs, which keeps names, contents and hard links.
    Romfs(RomfsOptions),
    /// EROFS, which keeps everything.
    Erofs(ErofsOptions),
}

impl ImageFormat {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Romfs(_) => "romfs",
            Self::Erofs(_) => "EROFS",
        }
    }
}

/// How a romfs image is built.
#[derive(Debug, Clone, Default)]
pub struct RomfsOptions {
    /// The image's own options.
    pub image: RomfsImageOptions,
    /// Whether files are stored, too, that not everybody may read. In the image, everybody may read them.
    pub widen_permissions: bool,
    /// Which other losses make the build fail.
    pub refused_losses: RefusedLosses,
}

impl Default for ImageFormat {
    fn default() -> Self {
        Self::Erofs(ErofsOptions::default())
    }
}
