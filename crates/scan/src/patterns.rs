use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use thiserror::Error;

use crate::Entry;

/// Patterns of paths below the root of a tree.
///
/// A pattern must match the whole path, as in a bridge's policy: `*` and `?` match within a name, `**` matches any number
/// of directories: `var/cache/*`, `**/*.pyc`. The default are none.
#[derive(Debug, Clone, Default)]
pub struct Patterns(GlobSet);

/// The pattern is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}: allowed are *, ?, [a-z], {{one,other}} and, between slashes, **")]
pub struct InvalidPattern(String);

impl Patterns {
    /// What matches one of these.
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
        Ok(Self(set.build().map_err(invalid)?))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any of them matches a name in a directory of a tree.
    pub(crate) fn match_name(&self, directory: Entry<'_>, name: &[u8]) -> bool {
        let path = || directory.path_inside().join(OsStr::from_bytes(name));
        !self.is_empty() && self.matches(&path())
    }

    /// Whether any of them matches a path below the root.
    pub fn matches(&self, path: &Path) -> bool {
        self.0.is_match(path)
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
        let patterns = Patterns::new(["var/cache/*", "**/*.pyc", "top"]).unwrap();
        for (path, expected) in [
            ("var/cache/apt", true),
            ("var/cache", false),
            ("var/cache/apt/archives", false),
            ("a.pyc", true),
            ("usr/lib/a.pyc", true),
            ("top", true),
            ("usr/top", false),
        ] {
            assert_eq!(patterns.matches(path.as_ref()), expected, "{path}");
        }
        assert!(!Patterns::default().matches("top".as_ref()));
        assert!(Patterns::new::<&str>([]).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for pattern in ["[a", "{a", "a}"] {
            assert!(Patterns::new([pattern]).is_err(), "{pattern}");
        }
    }
}
