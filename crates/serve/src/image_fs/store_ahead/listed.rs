use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};

use verimount_tree::{Attr, FileType, NodeId};

/// The largest file that is stored ahead, in bytes: what the kernel asks for with one request at first.
const LARGEST: u64 = 128 << 10;

/// The most files that are stored ahead of a reader. More would be stored when it has asked for them already.
pub(super) const MOST_AHEAD: u64 = 4;

/// How many readers are distinguished.
pub(super) const READERS: usize = 16;

/// How many files are remembered. They take about 4 MiB.
const MAX_LISTED: usize = 1 << 16;

/// A file that may be stored ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::image_fs) struct SmallFile {
    pub(super) node: NodeId,
    /// In bytes, at most [`LARGEST`].
    pub(super) size: u32,
}

impl SmallFile {
    /// The file with these attributes, if it is one.
    pub(in crate::image_fs) fn of(attr: &Attr) -> Option<Self> {
        let is_small = (1..=LARGEST).contains(&attr.size);
        (attr.file_type == FileType::RegularFile && is_small).then_some(Self {
            node: attr.node,
            size: attr.size as u32,
        })
    }
}

/// The order in which small files were listed, and who reads them in that order.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// The place of each file in the order; the last one, if it was listed several times.
    places: HashMap<NodeId, u64>,
    /// The files that were listed last, from the place `first` on.
    files: VecDeque<SmallFile>,
    first: u64,
    /// The most recent first.
    readers: Vec<Reader>,
}

/// Somebody who has read a file.
#[derive(Debug, Clone, Copy)]
struct Reader {
    /// The place of the file that it will ask for if it reads in order.
    next: u64,
    /// How many files before that one were to be stored.
    ahead: u64,
}

impl Listed {
    /// Appends a file.
    pub(super) fn add(&mut self, file: SmallFile) {
        if self.files.len() == MAX_LISTED
            && let Some(oldest) = self.files.pop_front()
        {
            if self.places.get(&oldest.node) == Some(&self.first) {
                self.places.remove(&oldest.node);
            }
            self.first += 1;
        }
        self.places.insert(file.node, self.end());
        self.files.push_back(file);
    }

    fn end(&self) -> u64 {
        self.first + self.files.len() as u64
    }

    /// Notes that the kernel asks for a file. Returns the files that are to be stored: the next ones, if its reader has read the one
    /// before; once, twice, and then four times as many.
    pub(super) fn reached(&mut self, node: NodeId) -> impl Iterator<Item = SmallFile> + '_ {
        let place = self.places.get(&node).copied();
        let ahead = place.map_or(0..0, |place| self.advance(place));
        let (first, files) = (self.first, &self.files);
        ahead.filter_map(move |place| files.get((place - first) as usize).copied())
    }

    /// The places of the files to store for the reader of this one.
    fn advance(&mut self, place: u64) -> Range<u64> {
        // It was faster than whoever stores the file.
        let is_ahead = |reader: &Reader| (reader.next - reader.ahead..reader.next).contains(&place);
        if self.readers.iter().any(is_ahead) {
            return 0..0;
        }
        let own = self.readers.iter().position(|reader| reader.next == place);
        let ahead = match own.map(|own| self.readers.remove(own).ahead) {
            None => 0,
            Some(before) => (before * 2).clamp(1, MOST_AHEAD),
        };
        let next = self.end().min(place + 1 + ahead);
        let ahead = next - place - 1;
        self.readers.insert(0, Reader { next, ahead });
        self.readers.truncate(READERS);
        place + 1..next
    }
}

#[cfg(test)]
mod tests {
    use verimount_tree::Permissions;

    use super::*;

    fn node(number: u64) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn file(number: u64) -> SmallFile {
        SmallFile {
            node: node(number),
            size: 1,
        }
    }

    /// Files with these numbers.
    fn listed(numbers: impl IntoIterator<Item = u64>) -> Listed {
        let mut listed = Listed::default();
        numbers
            .into_iter()
            .for_each(|number| listed.add(file(number)));
        listed
    }

    fn reached(listed: &mut Listed, number: u64) -> Vec<u64> {
        let ahead = listed.reached(node(number));
        ahead.map(|file| file.node.get()).collect()
    }

    #[test]
    fn more_and_more_files_are_stored_ahead_of_a_reader() {
        let mut listed = listed(1..=20);
        for (number, ahead) in [
            (1, vec![]),
            (2, vec![3]),
            (4, vec![5, 6]),
            (7, vec![8, 9, 10, 11]),
            (12, vec![13, 14, 15, 16]),
            (17, vec![18, 19, 20]),
            (21, vec![]),
        ] {
            assert_eq!(reached(&mut listed, number), ahead, "{number}");
        }
    }

    #[test]
    fn nothing_is_stored_for_readers_in_another_order() {
        let mut backwards = listed((1..=20).rev());
        for number in 1..=20 {
            assert!(reached(&mut backwards, number).is_empty());
        }
        let mut every_second = listed(1..=20);
        for number in (1..=20).step_by(2) {
            assert!(reached(&mut every_second, number).is_empty());
        }
    }

    #[test]
    fn a_reader_that_is_faster_goes_on() {
        let mut listed = listed(1..=20);
        for number in [1, 2] {
            reached(&mut listed, number);
        }
        assert!(reached(&mut listed, 3).is_empty());
        assert_eq!(reached(&mut listed, 4), [5, 6]);
    }

    #[test]
    fn readers_are_distinguished() {
        let mut listed = listed(1..=40);
        for number in [1, 21] {
            assert!(reached(&mut listed, number).is_empty());
        }
        assert_eq!(reached(&mut listed, 2), [3]);
        assert_eq!(reached(&mut listed, 22), [23]);
        assert_eq!(reached(&mut listed, 4), [5, 6]);
    }

    #[test]
    fn only_small_files_count() {
        let of = |file_type, size| {
            let attr = Attr::new(node(7), file_type, Permissions::new(0o644), size);
            SmallFile::of(&attr).map(|file| u64::from(file.size))
        };
        for (size, small) in [
            (0, None),
            (1, Some(1)),
            (LARGEST, Some(LARGEST)),
            (LARGEST + 1, None),
        ] {
            assert_eq!(of(FileType::RegularFile, size), small);
            assert_eq!(of(FileType::Directory, size), None);
        }
    }

    #[test]
    fn the_oldest_files_are_forgotten() {
        let most = MAX_LISTED as u64;
        let mut listed = Listed::default();
        // The first is listed twice.
        for number in (1..=most).chain([1, most + 1, most + 2]) {
            listed.add(file(number));
        }
        assert_eq!(
            (listed.files.len(), listed.places.len()),
            (MAX_LISTED, MAX_LISTED)
        );
        assert!(!listed.places.contains_key(&node(2)));
        let at = |number| listed.places[&node(number)];
        assert_eq!((at(4), at(1), listed.first), (3, most, 3));
        let mut ahead = |number| listed.reached(node(number)).count();
        assert_eq!((ahead(4), ahead(5)), (0, 1));
    }
}
