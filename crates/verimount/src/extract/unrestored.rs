use std::{collections::BTreeMap, fmt, path::PathBuf};

use verimount_tree::Lost;

/// Something in an image that a copy of a file does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unrestored {
    /// The file itself, which is a device or another special file.
    SpecialFiles,
    /// Owner or group.
    Owners,
    /// Permissions, or set-id bits of a file without its owner or group.
    Permissions,
    /// Modification time.
    Times,
    /// Access control lists.
    AccessLists,
    /// File capabilities.
    Capabilities,
    /// Any other extended attribute.
    Attributes,
}

/// The files whose copies do not have everything, because the caller may not do that or the file system
/// cannot.
#[derive(Debug, Clone, Default)]
pub struct UnrestoredFiles(BTreeMap<Unrestored, Lost>);

impl UnrestoredFiles {
    /// The files by what they do not have.
    pub fn iter(&self) -> impl Iterator<Item = (Unrestored, &Lost)> {
        self.0.iter().map(|(kind, lost)| (*kind, lost))
    }

    /// The files without this; `None` if there are none.
    pub fn get(&self, kind: Unrestored) -> Option<&Lost> {
        self.0.get(&kind)
    }

    /// Whether all files have everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a file by its path from the root.
    pub(super) fn add(&mut self, kind: Unrestored, path: &dyn Fn() -> PathBuf, detail: String) {
        self.0.entry(kind).or_default().add(path, detail);
    }
}

/// Shows what could not be restored, and some of the files concerned, in one line.
#[derive(Debug)]
pub struct UnrestoredText<'a>(pub Unrestored, pub &'a Lost);

impl fmt::Display for UnrestoredText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kind, lost) = *self;
        let what = match kind {
            Unrestored::SpecialFiles => {
                return write!(f, "could not create devices or other special files, {lost}");
            }
            Unrestored::Owners => "owners",
            Unrestored::Permissions => "permissions",
            Unrestored::Times => "times",
            Unrestored::AccessLists => "access control lists",
            Unrestored::Capabilities => "file capabilities",
            Unrestored::Attributes => "extended attributes",
        };
        write!(f, "could not restore the {what} of {lost}")
    }
}
