use std::{fmt, time::Duration};

use verimount_fuse::Capabilities;

/// How long the kernel may cache names, attributes and content of a mirrored directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// Not at all: each use sends a request.
    Strict,
    /// Names and attributes for a second. Content is kept when a file is opened only if it certainly has
    /// not changed. So names and attributes that others change in the source are seen within a second,
    /// and content when the file is opened next.
    #[default]
    Normal,
    /// Without limit: the source must be changed through this mount only.
    Exclusive,
}

impl CachePolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Normal, Self::Exclusive];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Normal => "normal",
            Self::Exclusive => "exclusive",
        }
    }

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

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
