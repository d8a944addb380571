use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use crate::{Entry, InvalidPattern, Patterns};

/// [`Patterns`] of paths that are left out of a tree. The default leaves out nothing.
///
/// A directory is left out with everything in it. The root is never left out.
#[derive(Debug, Clone, Default)]
pub struct Exclude(Patterns);

impl Exclude {
    /// Leaves out what matches one of these patterns.
    ///
    /// # Errors
    /// [`InvalidPattern`] for the first pattern that is invalid.
    pub fn new<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, InvalidPattern> {
        Patterns::new(patterns).map(Self)
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a name in a directory of a tree is left out.
    pub(crate) fn matches_name(&self, directory: Entry<'_>, name: &[u8]) -> bool {
        let path = || directory.path_inside().join(OsStr::from_bytes(name));
        !self.is_empty() && self.0.matches(&path())
    }
}
