use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use zerocopy::IntoBytes;

use crate::{
    Entry,
    abi::{Dirent, EntryOut},
};

/// Records begin at multiples of this many bytes.
const ALIGNMENT: usize = 8;

/// A name in a directory, without its attributes.
#[derive(Debug, Clone, Copy)]
pub struct Name<'n> {
    /// The name.
    pub name: &'n OsStr,
    /// The number that users see.
    pub ino: u64,
    /// Type, as in the mode of `stat`.
    pub mode: u32,
    /// Where a listing goes on behind it: any number but 0.
    pub next: u64,
}

/// A listing of names that is being filled.
#[derive(Debug, Default)]
pub struct Names {
    records: Vec<u8>,
    room: usize,
}

/// A listing of names with their attributes that is being filled.
#[derive(Debug, Default)]
pub struct NamesPlus(Names);

impl Names {
    /// Empties it; the kernel then takes `room` bytes.
    pub(crate) fn restart(&mut self, room: u32) {
        self.records.clear();
        self.room = room as usize;
    }

    pub(crate) fn records(&self) -> &[u8] {
        &self.records
    }

    /// Adds a name; false if there is no room for it: then the listing is done.
    #[must_use]
    pub fn add(&mut self, name: Name<'_>) -> bool {
        self.add_behind(&[], name)
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
        true
    }
}

impl NamesPlus {
    pub(crate) fn restart(&mut self, room: u32) {
        self.0.restart(room);
    }

    pub(crate) fn records(&self) -> &[u8] {
        self.0.records()
    }

    /// Adds a name and its file, which the kernel then remembers once more, as after a lookup; an
    /// entry without a file (`.` and `..`) is only listed. False if there is no room for it: then
    /// the listing is done.
    #[must_use]
    pub fn add(&mut self, name: Name<'_>, entry: &Entry) -> bool {
        self.0.add_behind(EntryOut::from(entry).as_bytes(), name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        names.restart(24 + 8 + 24 + 8);
        assert!(names.add(name("a", 1)));
        assert_eq!(names.records().len(), 32);
        assert!(names.add(name("12345678", 2)));
        assert!(!names.add(name("b", 3)));
        assert_eq!(names.records().len(), 64);
        assert_eq!(&names.records()[16..25], [1, 0, 0, 0, 8, 0, 0, 0, b'a']);
    }
}
