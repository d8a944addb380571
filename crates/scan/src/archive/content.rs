//! Reading contents where they are in an archive.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use crate::{FileData, Identity};

/// An archive, while a tree that is in it is used.
#[derive(Debug)]
pub(crate) struct ArchiveFile {
    file: File,
    identity: Identity,
}

/// The content of a file in an archive.
#[derive(Debug)]
pub(crate) struct StoredContent<'t> {
    archive: &'t ArchiveFile,
    /// Where it begins.
    at: u64,
    /// Its length in bytes, with holes.
    size: u64,
    /// The ranges that are in the archive, and of each how many bytes are in front of it there. `None` for a file
    /// without holes.
    stored: Option<(&'t [Range<u64>], Vec<u64>)>,
}

impl ArchiveFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let identity = Identity::of(&file.metadata()?);
        let identity = identity.ok_or_else(|| io::Error::other("it is not a regular file"))?;
        Ok(Self { file, identity })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The content of this file, which begins at `at`.
    pub(crate) fn content<'t>(&'t self, at: u64, file: &'t FileData) -> StoredContent<'t> {
        let stored = file.stored.as_deref().map(|ranges| {
            let before = ranges.iter().scan(0, |sum, range| {
                let before = *sum;
                *sum += range.end - range.start;
                Some(before)
            });
            (ranges, before.collect())
        });
        StoredContent {
            archive: self,
            at,
            size: file.size(),
            stored,
        }
    }
}

impl StoredContent<'_> {
    /// Whether the archive is what it was.
    pub(crate) fn is_same(&self) -> io::Result<bool> {
        self.archive.identity.is_of(&self.archive.file)
    }

    /// Fills `buffer` with the bytes from `offset` on.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        let end = end.filter(|end| *end <= self.size);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let file = &self.archive.file;
        let Some((ranges, before)) = &self.stored else {
            return file.read_exact_at(buffer, self.at + offset);
        };
        buffer.fill(0);
        let first = ranges.partition_point(|range| range.end <= offset);
        // To `skip` them would be to look at all in front.
        let ranges = ranges[first..].iter().zip(&before[first..]);
        for (range, before) in ranges.take_while(|(range, _)| range.start < end) {
            let (from, to) = (range.start.max(offset), range.end.min(end));
            let part = &mut buffer[(from - offset) as usize..(to - offset) as usize];
            file.read_exact_at(part, self.at + before + (from - range.start))?;
        }
        Ok(())
    }
}
