#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::as_conversions
)]

use std::{io, ops::Range};

use verimount_source::{GrowingFile, ReadAt, Window};

use crate::{
    Error,
    unfinished::{SECTOR, SECTOR_SIZE, Sealing, Unfinished},
};

/// A file to which the parts of a seal are written.
pub(crate) struct SealFile<'a> {
    file: &'a dyn GrowingFile,
    /// Offset of the mark in a file with data. The last sector of the seal overwrites it when all
    /// the rest is durable. Beyond the end for a new file, which has no mark.
    mark_at: u64,
    last: [u8; SECTOR],
    /// The file's content, if an earlier sealing was interrupted.
    found: Option<&'a dyn ReadAt>,
}

impl<'a> SealFile<'a> {
    /// A new file that nobody reads before it is complete.
    pub(crate) fn new(file: &'a dyn GrowingFile) -> Self {
        Self {
            file,
            mark_at: u64::MAX,
            last: [0; SECTOR],
            found: None,
        }
    }

    /// Writes a part of the seal, whole sectors.
    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let before_mark = usize::try_from(self.mark_at.saturating_sub(offset));
        let before_mark = before_mark.unwrap_or(usize::MAX).min(bytes.len());
        let (bytes, last) = bytes.split_at(before_mark);
        if !last.is_empty() {
            let last = last.try_into();
            self.last = last.map_err(|_| io::ErrorKind::InvalidInput)?;
        }
        self.check_replaceable(bytes, offset)?;
        self.file.write_all_at(bytes, offset)
    }

    /// Leaves a part of the seal zero: the short padding that aligns other parts.
    pub(crate) fn skip(&self, range: Range<u64>) -> io::Result<()> {
        let len = usize::try_from(range.end.saturating_sub(range.start));
        let zeros = vec![0; len.map_err(|_| io::ErrorKind::InvalidInput)?];
        self.check_replaceable(&zeros, range.start)
    }

    /// With the same data and options, an interrupted sealing has left only zeros and the same
    /// sectors. Refusing to overwrite anything else protects data, even if the mark is forged.
    fn check_replaceable(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let Some(found) = self.found else {
            return Ok(());
        };
        let mut there = vec![0; bytes.len()];
        found
            .read_exact_at(&mut there, offset)
            .map_err(io::Error::other)?;
        let mut sectors = there.chunks(SECTOR).zip(bytes.chunks(SECTOR));
        if sectors.all(|(there, new)| there == new || there.iter().all(|&byte| byte == 0)) {
            Ok(())
        } else {
            Err(io::Error::other(NoPartOfIt))
        }
    }

    /// Replaces the mark by the last sector, after which the file is sealed.
    fn complete(&self) -> io::Result<()> {
        self.file.sync_all()?;
        self.file.write_all_at(&self.last, self.mark_at)?;
        self.file.sync_all()
    }
}

/// A refused write: the present bytes were not left by an interrupted sealing.
#[derive(Debug, thiserror::Error)]
#[error("it would overwrite bytes that are not part of this seal")]
struct NoPartOfIt;

/// A file to whose data a seal is appended.
pub(crate) struct Append<'a> {
    file: &'a dyn GrowingFile,
    content: &'a dyn ReadAt,
    begun: Option<Sealing>,
}

impl<'a> Append<'a> {
    /// Appends to `file`, which holds `content`: data, perhaps followed by a part of a seal that an
    /// interrupted sealing has left.
    ///
    /// # Errors
    /// [`Error::AlreadySealed`], [`Error::Corrupt`], [`Error::Source`].
    pub(crate) fn new(file: &'a dyn GrowingFile, content: &'a dyn ReadAt) -> Result<Self, Error> {
        let begun = match Unfinished::read(content)? {
            None => None,
            Some(Unfinished::Sealing(begun)) => Some(begun),
            Some(Unfinished::Signing(_)) => return Err(Error::AlreadySealed),
        };
        Ok(Self {
            file,
            content,
            begun,
        })
    }

    /// The data.
    pub(crate) fn data(&self) -> Result<Window<&'a dyn ReadAt>, Error> {
        let size = self.begun.as_ref().map(|begun| begun.data_size);
        let size = size.unwrap_or(self.content.size());
        Ok(Window::new(self.content, 0, size)?)
    }

    /// Calls `write` to write a seal that ends at `end`, including its last sector.
    ///
    /// If that fails, the file is truncated to its data, unless it was longer before.
    pub(crate) fn write<T>(
        &self,
        end: u64,
        write: impl FnOnce(&mut SealFile<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let data_size = self.data()?.size();
        if let Some(begun) = &self.begun {
            if begun.file_size != end {
                return Err(Error::BegunOtherwise { data_size });
            }
            return match self.write_behind_mark(end, write) {
                Err(Error::Write(error)) if is_no_part_of_it(&error) => {
                    Err(Error::BegunOtherwise { data_size })
                }
                written => written,
            };
        }
        let written = self
            .put_mark(data_size, end)
            .and_then(|()| self.write_behind_mark(end, write));
        if written.is_err() {
            // Report the first failure, not another one of the cleanup.
            let _ = self
                .file
                .set_len(data_size)
                .and_then(|()| self.file.sync_all());
        }
        written
    }

    fn put_mark(&self, data_size: u64, file_size: u64) -> Result<(), Error> {
        let mark = Sealing {
            data_size,
            file_size,
        };
        let mark = mark.mark();
        self.file
            .write_all_at(&mark, mark_at(file_size)?)
            .and_then(|()| self.file.sync_all())
            .map_err(Error::Write)
    }

    fn write_behind_mark<T>(
        &self,
        end: u64,
        write: impl FnOnce(&mut SealFile<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut file = SealFile {
            mark_at: mark_at(end)?,
            found: self.begun.as_ref().map(|_| self.content),
            ..SealFile::new(self.file)
        };
        let made = write(&mut file)?;
        file.complete().map_err(Error::Write)?;
        Ok(made)
    }
}

fn is_no_part_of_it(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<NoPartOfIt>())
}

fn mark_at(file_size: u64) -> Result<u64, Error> {
    let mark_at = file_size.checked_sub(SECTOR_SIZE);
    mark_at.ok_or(Error::TooLarge(file_size))
}
