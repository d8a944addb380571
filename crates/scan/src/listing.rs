//! The names in a directory.

use std::{fs::File, io, ops::Range};

use rustix::fs::RawDir;

/// The most entries of a directory: more than any file system in use allows, and a bound for the
/// memory that a listing takes.
pub(crate) const MAX_ENTRIES: usize = 1 << 28;

/// How much of a directory is read at once, in bytes: about a thousand entries.
const BATCH: usize = 32 << 10;

/// Names of a directory, sorted by their bytes, which are taken one after the other.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    bytes: Vec<u8>,
    names: Vec<Range<usize>>,
    /// How many have been taken.
    taken: usize,
}

/// Why a directory could not be listed.
pub(crate) enum ListingError {
    Io(io::Error),
    TooMany,
}

/// Lists directories.
pub(crate) struct Lister(Vec<u8>);

impl Lister {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(BATCH))
    }

    /// The names in a directory that is open for listing, without `.` and `..`.
    pub(crate) fn list(&mut self, directory: &File) -> Result<Listing, ListingError> {
        let mut listing = Listing::default();
        let mut entries = RawDir::new(directory, self.0.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|errno| ListingError::Io(errno.into()))?;
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => listing.push(name),
            }
            if listing.names.len() > MAX_ENTRIES {
                return Err(ListingError::TooMany);
            }
        }
        listing.sort();
        Ok(listing)
    }
}

impl Listing {
    fn push(&mut self, name: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.names.push(start..self.bytes.len());
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let name = |range: &Range<usize>| &bytes[range.clone()];
        self.names.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        // A file that is renamed during the listing can appear twice.
        self.names.dedup_by(|a, b| name(a) == name(b));
    }

    /// Adds a name in its place; returns whether it is a new one.
    pub(crate) fn add(&mut self, name: &[u8]) -> bool {
        let found = self
            .names
            .binary_search_by(|range| self.bytes[range.clone()].cmp(name));
        if let Err(place) = found {
            self.push(name);
            self.names[place..].rotate_right(1);
        }
        found.is_err()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The next name.
    pub(crate) fn take(&mut self) -> Option<&[u8]> {
        let range = self.names.get(self.taken)?.clone();
        self.taken += 1;
        Some(&self.bytes[range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_by_their_bytes_and_once() {
        let mut listing = Listing::default();
        for name in [&b"b"[..], b"a\xff", b"a", b"B", b"b", b"ab"] {
            listing.push(name);
        }
        listing.sort();
        let mut names = Vec::new();
        while let Some(name) = listing.take() {
            names.push(name.to_vec());
        }
        assert_eq!(names, [&b"B"[..], b"a", b"ab", b"a\xff", b"b"]);
    }

    #[test]
    fn a_name_is_added_in_its_place() {
        let mut listing = Listing::default();
        for (name, is_new) in [(&b"b"[..], true), (b"a", true), (b"c", true), (b"a", false)] {
            assert_eq!(listing.add(name), is_new);
        }
        let names = [(); 3].map(|()| listing.take().map(<[u8]>::to_vec));
        assert_eq!(names, [b"a", b"b", b"c"].map(|name| Some(name.to_vec())));
    }
}
