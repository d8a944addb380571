use std::time::Duration;

use verimount_fuse::Capabilities;
use verimount_names::named;

named! {
    /// How long the kernel may cache names, attributes and content of a mirrored directory. The names are those on the command line.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum CachePolicy {
        /// Not at all: each use sends a request.
        Strict = "strict",
        /// Names and attributes for a second. Content is kept when a file is opened only if it certainly has
        /// not changed. So names and attributes that others change in the source are seen within a second,
        /// and content when the file is opened next.
        #[default]
        Normal = "normal",
        /// Without limit: the source must be changed through this mount only.
        Exclusive = "exclusive",
    }
}

impl CachePolicy {
    /// How long names and attributes may be cached.
    pub(crate) fn lifetime(self) -> Duration {
        match self {
            Self::Strict => Duration::ZERO,
            Self::Normal => Duration::from_secs(1),
            Self::Exclusive => Duration::from_secs(24 * 3600),
        }
    }

    pub(crate) fn capabilities(self) -> Capabilities {
        match self {
            Self::Strict | Self::Normal => Capabilities::AUTO_INVAL_DATA,
            Self::Exclusive => {
                Capabilities::EXPLICIT_INVAL_DATA.union(Capabilities::CACHE_SYMLINKS)
            }
        }
    }
}
