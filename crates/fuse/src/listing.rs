use std::{ffi::OsStr, mem::offset_of, os::unix::ffi::OsStrExt};

use zerocopy::{FromBytes, IntoBytes};

use crate::{
    Entry, NodeId,
    abi::{Dirent, EntryOut},
};

/// Alignment of records, in bytes.
const ALIGNMENT: usize = 8;

/// A name in a directory, without its attributes.
#[derive(Debug, Clone, Copy)]
pub struct Name<'n> {
    /// The name.
    pub name: &'n OsStr,
    /// The inode number that users see.
    pub ino: u64,
    /// File type, as in the mode of `stat`.
    pub mode: u32,
    /// The position at which a listing continues after this name: any number but 0.
    pub next: u64,
}

/// A partial listing of names, which an operation fills.
#[derive(Debug, Default)]
pub struct Names {
    records: Vec<u8>,
    room: usize,
    wants_entries: bool,
}

impl Names {
    /// Clears it for a listing of at most `room` bytes.
    pub(crate) fn restart(&mut self, room: u32, wants_entries: bool) {
        self.records.clear();
        self.room = room as usize;
        self.wants_entries = wants_entries;
    }

    pub(crate) fn records(&self) -> &[u8] {
        &self.records
    }

    /// Whether each name is looked up, so that the kernel knows its attributes. It increments the lookup count of each
    /// file whose name is [added](Self::add).
    pub fn wants_entries(&self) -> bool {
        self.wants_entries
    }

    /// Adds a name, with its file if that is [wanted](Self::wants_entries). An entry without a node (`.`
    /// and `..`) is only listed. Returns false if there is no room for it; then this part of the listing
    /// is complete.
    #[must_use]
    pub fn add(&mut self, name: Name<'_>, entry: impl FnOnce() -> Entry) -> bool {
        if self.wants_entries {
            self.add_behind(EntryOut::from(&entry()).as_bytes(), name)
        } else {
            self.add_behind(&[], name)
        }
    }

    fn add_behind(&mut self, head: &[u8], name: Name<'_>) -> bool {
        let len = head.len() + size_of::<Dirent>() + name.name.len();
        let padded = len.next_multiple_of(ALIGNMENT);
        if padded > self.room - self.records.len() {
            return false;
        }
        let dirent = Dirent {
            ino: name.ino,
            off: name.next,
            namelen: name.name.len() as u32,
            kind: (name.mode & 0o170_000) >> 12,
        };
        self.records.extend_from_slice(head);
        self.records.extend_from_slice(dirent.as_bytes());
        self.records.extend_from_slice(name.name.as_bytes());
        self.records.extend(std::iter::repeat_n(0, padded - len));
        debug_assert!(self.records.len() <= self.room);
        debug_assert!(self.records.len().is_multiple_of(ALIGNMENT));
        true
    }
}

/// The nodes whose lookup count the kernel increments for a listing with attributes.
pub(crate) fn listed_nodes(mut records: &[u8]) -> impl Iterator<Item = NodeId> {
    std::iter::from_fn(move || {
        let (node, _) = u64::read_from_prefix(records).ok()?;
        let name_len = records.get(size_of::<EntryOut>() + offset_of!(Dirent, namelen)..)?;
        let (name_len, _) = u32::read_from_prefix(name_len).ok()?;
        let len = size_of::<EntryOut>() + size_of::<Dirent>() + name_len as usize;
        records = records.get(len.next_multiple_of(ALIGNMENT)..)?;
        Some(NodeId(node))
    })
    .filter(|node| node.0 != 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Attr, Generation, Node};

    fn name(text: &str, next: u64) -> Name<'_> {
        Name {
            name: OsStr::new(text),
            ino: 7,
            mode: 0o100_644,
            next,
        }
    }

    #[test]
    fn records_are_padded_and_never_cut() {
        let mut names = Names::default();
        names.restart(24 + 8 + 24 + 8, false);
        let nobody = || unreachable!("no entry is wanted");
        assert!(names.add(name("a", 1), nobody));
        assert_eq!(names.records().len(), 32);
        assert!(names.add(name("12345678", 2), nobody));
        assert!(!names.add(name("b", 3), nobody));
        assert_eq!(names.records().len(), 64);
        assert_eq!(&names.records()[16..25], [1, 0, 0, 0, 8, 0, 0, 0, b'a']);
    }

    #[test]
    fn nodes_of_a_listing() {
        let entry = |node: u64| Entry {
            node: (node != 0).then_some(Node {
                id: NodeId(node),
                generation: Generation::new(9),
            }),
            attr: Attr::default(),
            entry_valid: Duration::ZERO,
            attr_valid: Duration::ZERO,
        };
        let mut names = Names::default();
        names.restart(4096, true);
        for (text, node) in [(".", 0), ("a", 5), ("12345678", 6), ("..", 0), ("b", 7)] {
            assert!(names.add(name(text, 1), || entry(node)));
        }
        let nodes: Vec<_> = listed_nodes(names.records()).collect();
        assert_eq!(nodes, [NodeId(5), NodeId(6), NodeId(7)]);
        assert_eq!(listed_nodes(&[]).count(), 0);
    }
}
