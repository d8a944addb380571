use verimount_content::setters;
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
#[must_use]
pub struct RomfsOptions {
    pub(crate) image: RomfsImageOptions,
    pub(crate) widen_permissions: bool,
    pub(crate) refused_losses: RefusedLosses,
}

impl RomfsOptions {
    setters! {
        /// The image's own options.
        image: RomfsImageOptions => image;

        /// Whether files are stored, too, that not everybody may read. In the image, everybody may read them.
        widen_permissions: bool => widen_permissions;

        /// Which other losses make the build fail.
        refused_losses: RefusedLosses => refused_losses;
    }
}

impl Default for ImageFormat {
    fn default() -> Self {
        Self::Erofs(ErofsOptions::default())
    }
}
