//! The names that say what a container layer deletes of those below it.

use crate::{Whiteouts, Xattr};

/// What a member of a container layer means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning<'n> {
    /// Itself.
    Itself,
    /// Nothing of this name is in the layers below.
    Deletes(&'n [u8]),
    /// Nothing of its directory is in the layers below.
    DeletesAll,
    /// Only something to the file system that the names come from.
    Nothing,
}

const PREFIX: &[u8] = b".wh.";
const RESERVED: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What a member with these names in its path means.
pub(super) fn meaning<'n>(names: &[&'n [u8]], choice: Whiteouts) -> Meaning<'n> {
    let Some((last, directories)) = names.split_last() else {
        return Meaning::Itself;
    };
    let is_reserved = |name: &&[u8]| name.starts_with(RESERVED);
    match last.strip_prefix(PREFIX) {
        _ if choice == Whiteouts::Keep => Meaning::Itself,
        _ if directories.iter().any(is_reserved) => Meaning::Nothing,
        Some(_) if *last == OPAQUE => Meaning::DeletesAll,
        Some(_) if is_reserved(last) => Meaning::Nothing,
        Some(deleted) if !matches!(deleted, b"" | b"." | b"..") => Meaning::Deletes(deleted),
        _ => Meaning::Itself,
    }
}

/// The attributes of a directory that hides those below it. An overlay that root mounts reads the first one, and one with
/// `userxattr`, as every overlay of an ordinary user has, the second one.
pub(super) fn opaque() -> [Xattr; 2] {
    ["trusted.overlay.opaque", "user.overlay.opaque"].map(|name| Xattr {
        name: name.as_bytes().into(),
        value: (*b"y").into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_meanings() {
        for (path, expected) in [
            ("a/b", Meaning::Itself),
            ("a/.wh.b", Meaning::Deletes(b"b")),
            (".wh..hidden", Meaning::Deletes(b".hidden")),
            ("a/.wh..wh..opq", Meaning::DeletesAll),
            ("a/.wh..wh.aufs", Meaning::Nothing),
            (".wh..wh.plnk/1.2", Meaning::Nothing),
            (".wh.", Meaning::Itself),
            (".wh..", Meaning::Itself),
            (".wh...", Meaning::Itself),
            (".wh.a/b", Meaning::Itself),
        ] {
            let names: Vec<_> = path.split('/').map(str::as_bytes).collect();
            assert_eq!(meaning(&names, Whiteouts::Overlay), expected, "{path}");
            assert_eq!(meaning(&names, Whiteouts::Keep), Meaning::Itself, "{path}");
        }
        assert_eq!(meaning(&[], Whiteouts::Overlay), Meaning::Itself);
    }
}
