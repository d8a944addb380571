//! Finds the block of older content that has a digest.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use verimount_source::FileRange;

/// Entries that are sorted at a time, and the most that stay in memory: 4 MiB, for 1 GiB of data in blocks of 4 KiB.
const SORTED: usize = 1 << 18;

/// The most entries: for 512 GiB of data in blocks of 4 KiB. Further blocks are left out.
const MOST: u64 = 1 << 27;

/// Entries that are read with one system call. Of each so many, one prefix is in memory: at most 4 MiB.
const PAGE: usize = 256;

/// Size of a stored entry in bytes.
const ENTRY: usize = 16;

/// The beginning of a digest, and where the block with it is. Different digests with the same beginning only cost a block that
/// is not found.
type Entry = (u64, u64);

/// The blocks of older content by their digests. It is built anew each time, in memory or in a file without a name: so it is
/// never that of other content, and several processes do not meet.
#[derive(Debug)]
pub(crate) struct Index {
    entries: Entries,
    /// The prefix of the first entry of each page.
    pages: Vec<u64>,
}

#[derive(Debug)]
enum Entries {
    Here(Vec<Entry>),
    Stored { file: File, count: u64 },
}

impl Default for Index {
    fn default() -> Self {
        Self {
            entries: Entries::Here(Vec::new()),
            pages: Vec::new(),
        }
    }
}

impl Index {
    /// Where a block may be that has this digest.
    pub(crate) fn find(&self, digest: &[u8]) -> Option<u64> {
        let prefix = prefix(digest)?;
        let find = |entries: &[Entry]| {
            let found = entries.binary_search_by_key(&prefix, |entry| entry.0);
            found.ok().map(|at| entries[at].1)
        };
        match &self.entries {
            Entries::Here(entries) => find(entries),
            Entries::Stored { file, count } => {
                let page = self.pages.partition_point(|first| *first <= prefix);
                let first = page.checked_sub(1)? as u64 * PAGE as u64;
                let len = (count - first).min(PAGE as u64) as usize;
                let mut bytes = [0; PAGE * ENTRY];
                let bytes = &mut bytes[..len * ENTRY];
                // What cannot be read is not found.
                file.read_exact_at(bytes, first * ENTRY as u64).ok()?;
                find(&bytes.chunks_exact(ENTRY).map(decode).collect::<Vec<_>>())
            }
        }
    }
}

fn prefix(digest: &[u8]) -> Option<u64> {
    digest.first_chunk().copied().map(u64::from_be_bytes)
}

fn encode((prefix, place): Entry) -> [u8; ENTRY] {
    let number = u128::from(prefix) << 64 | u128::from(place);
    number.to_be_bytes()
}

fn decode(bytes: &[u8]) -> Entry {
    let mut number = [0; ENTRY];
    number.copy_from_slice(bytes);
    let number = u128::from_be_bytes(number);
    ((number >> 64) as u64, number as u64)
}

/// Makes an [`Index`]: sorts as many entries as memory is allowed for, stores them, and merges what was stored.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    /// Where files without a name are made.
    folder: &'a Path,
    unsorted: Vec<Entry>,
    /// Sorted entries, and where each run of them ends.
    sorted: Option<(File, Vec<u64>)>,
    count: u64,
}

impl<'a> Builder<'a> {
    /// Nothing is made in `folder` if all stays in memory.
    pub(crate) fn new(folder: &'a Path) -> Self {
        Self {
            folder,
            unsorted: Vec::new(),
            sorted: None,
            count: 0,
        }
    }

    /// Where it makes files.
    pub(crate) fn folder(&self) -> &'a Path {
        self.folder
    }

    /// How many blocks were added.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many blocks it still has room for.
    pub(crate) fn room(&self) -> u64 {
        MOST - self.count
    }

    /// Adds a block, if there is room.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn add(&mut self, digest: &[u8], place: u64) -> io::Result<()> {
        let Some(prefix) = prefix(digest).filter(|_| self.room() > 0) else {
            return Ok(());
        };
        if self.unsorted.len() == SORTED {
            self.store()?;
        }
        self.unsorted.push((prefix, place));
        self.count += 1;
        Ok(())
    }

    /// Sorts what is in memory. Of blocks with the same digest, the first is enough.
    fn sort(&mut self) {
        self.unsorted.sort_unstable();
        self.unsorted.dedup_by_key(|entry| entry.0);
    }

    fn store(&mut self) -> io::Result<()> {
        self.sort();
        if self.sorted.is_none() {
            self.sorted = Some((tempfile::tempfile_in(self.folder)?, Vec::new()));
        }
        let Some((file, ends)) = &mut self.sorted else {
            return Ok(());
        };
        let mut out = BufWriter::new(&*file);
        for entry in self.unsorted.drain(..) {
            out.write_all(&encode(entry))?;
        }
        out.flush()?;
        drop(out);
        ends.push(file.stream_position()?);
        Ok(())
    }

    /// All that was added.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn finish(mut self) -> io::Result<Index> {
        if self.sorted.is_some() {
            self.store()?;
        }
        let Some((sorted, ends)) = self.sorted.take() else {
            self.sort();
            return Ok(Index {
                entries: Entries::Here(self.unsorted),
                pages: Vec::new(),
            });
        };
        self.unsorted = Vec::new();
        let file = tempfile::tempfile_in(self.folder)?;
        let (mut out, mut pages, mut count) = (BufWriter::new(&file), Vec::new(), 0);
        merge(&sorted, &ends, |entry| {
            if count % PAGE as u64 == 0 {
                pages.push(entry.0);
            }
            count += 1;
            out.write_all(&encode(entry))
        })?;
        out.flush()?;
        drop(out);
        Ok(Index {
            entries: Entries::Stored { file, count },
            pages,
        })
    }
}

/// Gives the entries of sorted runs in order, of those with the same prefix the first.
fn merge(
    file: &File,
    ends: &[u64],
    mut take: impl FnMut(Entry) -> io::Result<()>,
) -> io::Result<()> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    // All together take no more memory than sorting did.
    let buffer = (SORTED / ends.len()).max(1) * ENTRY;
    let mut runs: Vec<_> = starts
        .zip(ends)
        .map(|(start, end)| BufReader::with_capacity(buffer, FileRange::new(file, start..*end)))
        .collect();
    let mut heads = BinaryHeap::new();
    for (number, run) in runs.iter_mut().enumerate() {
        heads.extend(next(run)?.map(|entry| Reverse((entry, number))));
    }
    let mut last = None;
    while let Some(Reverse((entry, number))) = heads.pop() {
        if last.replace(entry.0) != Some(entry.0) {
            take(entry)?;
        }
        heads.extend(next(&mut runs[number])?.map(|entry| Reverse((entry, number))));
    }
    Ok(())
}

fn next(run: &mut BufReader<FileRange<'_>>) -> io::Result<Option<Entry>> {
    let mut bytes = [0; ENTRY];
    match run.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(decode(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any bytes, as digests are.
    fn digest(number: u64) -> [u8; 32] {
        let mut digest = [0; 32];
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        digest[..8].copy_from_slice(&mixed.to_be_bytes());
        digest
    }

    fn index(count: u64) -> Index {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = Builder::new(folder.path());
        for number in 0..count {
            builder.add(&digest(number), number).unwrap();
            // Others with the same digest, later.
            if number % 1000 == 0 {
                builder.add(&digest(number / 2), number).unwrap();
            }
        }
        builder.finish().unwrap()
    }

    #[test]
    fn what_was_added_is_found_in_memory_and_in_a_file() {
        for count in [0, 1, 1000, 3 * SORTED as u64 + 17] {
            let index = index(count);
            let is_stored = matches!(index.entries, Entries::Stored { .. });
            assert_eq!(is_stored, count > SORTED as u64);
            let step = (count / 1000).max(1) as usize;
            for number in (0..count).step_by(step).chain(count.checked_sub(1)) {
                assert_eq!(index.find(&digest(number)), Some(number));
            }
            assert_eq!(index.find(&digest(count)), None);
            assert_eq!(index.find(&[0xff; 32]), None);
        }
    }

    #[test]
    fn equal_digests_take_one_entry() {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = Builder::new(folder.path());
        for number in 0..2 * SORTED as u64 + 1 {
            builder.add(&[7; 32], number).unwrap();
        }
        let index = builder.finish().unwrap();
        assert_eq!(index.find(&[7; 32]), Some(0));
        assert!(matches!(index.entries, Entries::Stored { count: 1, .. }));
    }
}
