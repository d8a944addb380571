use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use thiserror::Error;

use crate::Entry;

/// Patterns of paths that are left out of a tree. The default leaves out nothing.
///
/// A pattern must match the whole path below the root, as in a bridge's policy: `*` and `?` match within a
/// name, `**` matches any number of directories: `var/cache/*`, `**/*.pyc`. A directory is left out
/// with everything in it. The root is never left out.
#[derive(Debug, Clone, Default)]
pub struct Exclude(Option<GlobSet>);

/// The pattern is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}: allowed are *, ?, [a-z], {{one,other}} and, between slashes, **")]
pub struct InvalidPattern(String);

impl Exclude {
    /// Leaves out what matches one of these patterns.
    ///
    /// # Errors
    /// [`InvalidPattern`] for the first pattern that is invalid.
    pub fn new<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, InvalidPattern> {
        let invalid = |error: globset::Error| InvalidPattern(error.kind().to_string());
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            set.add(glob(pattern.as_ref()).map_err(invalid)?);
        }
        let set = set.build().map_err(invalid)?;
        Ok(Self(Some(set).filter(|set| !set.is_empty())))
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a name in a directory of a tree is left out.
    pub(crate) fn matches_name(&self, directory: Entry<'_>, name: &[u8]) -> bool {
        let path = || directory.path_inside().join(OsStr::from_bytes(name));
        !self.is_empty() && self.matches(&path())
    }

    /// Whether a path below the root is left out.
    fn matches(&self, path: &Path) -> bool {
        self.0.as_ref().is_some_and(|set| set.is_match(path))
    }
}

fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_paths() {
        let exclude = Exclude::new(["var/cache/*", "**/*.pyc", "top"]).unwrap();
        for (path, expected) in [
            ("var/cache/apt", true),
            ("var/cache", false),
            ("var/cache/apt/archives", false),
            ("a.pyc", true),
            ("usr/lib/a.pyc", true),
            ("top", true),
            ("usr/top", false),
        ] {
            assert_eq!(exclude.matches(path.as_ref()), expected, "{path}");
        }
        assert!(!Exclude::default().matches("top".as_ref()));
        assert!(Exclude::new::<&str>([]).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for pattern in ["[a", "{a", "a}"] {
            assert!(Exclude::new([pattern]).is_err(), "{pattern}");
        }
    }
}
