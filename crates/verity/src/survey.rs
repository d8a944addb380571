use std::{num::NonZeroUsize, ops::Range};

use thiserror::Error;
use verimount_source::{ReadAhead, ReadAt, ReadError, Scratch, in_order};
use verimount_sync::Mutex;

use crate::{BlockKind, Error, Mismatch, Progress, VerifiedReader};

/// Size of one read while no error was found, in bytes.
const CHUNK: u64 = 1 << 20;

/// A range of data that cannot be read.
#[derive(Debug)]
pub struct BadRange {
    /// The bytes of the data.
    pub range: Range<u64>,
    /// The failure of its first block.
    pub reason: BadReason,
}

/// Why data cannot be read.
#[derive(Debug, Error)]
pub enum BadReason {
    /// A block does not match: a data block, or a tree block that covers it.
    #[error(transparent)]
    Mismatch(Mismatch),
    /// The data or the tree could not be read.
    #[error(transparent)]
    Unreadable(ReadError),
}

/// Reads and verifies all data with up to `threads` threads, and reports every bad range to
/// `found`, in order. All data below a bad tree block is bad, and is not read.
///
/// Adjacent bad blocks form one range if the same kind of block failed.
///
/// # Errors
/// [`Error::Cancelled`] if `progress` says so.
pub fn survey(
    reader: &VerifiedReader,
    threads: NonZeroUsize,
    found: &mut dyn FnMut(BadRange),
    progress: &mut Progress<'_>,
) -> Result<(), Error> {
    let survey = Survey {
        reader: ReadAhead::new(reader),
        bad_tree: Mutex::new(None),
    };
    let mut open: Option<BadRange> = None;
    let mut add = |bad: BadRange| {
        debug_assert!(
            open.as_ref()
                .is_none_or(|last| last.range.end <= bad.range.start),
            "ranges are found in order"
        );
        match &mut open {
            Some(last) if last.continues_in(&bad) => last.range.end = bad.range.end,
            _ => open.replace(bad).into_iter().for_each(&mut *found),
        }
    };
    let mut done = 0;
    while done < reader.size() {
        done = survey.read_from(done, threads, &mut add, progress)?;
    }
    open.into_iter().for_each(found);
    Ok(())
}

impl BadRange {
    fn continues_in(&self, next: &Self) -> bool {
        self.range.end == next.range.start
            && match (&self.reason, &next.reason) {
                (BadReason::Mismatch(a), BadReason::Mismatch(b)) => {
                    a.place == b.place && (a.place == BlockKind::Data || a.offset == b.offset)
                }
                (BadReason::Unreadable(_), BadReason::Unreadable(_)) => true,
                _ => false,
            }
    }
}

struct Survey<'a> {
    reader: ReadAhead<&'a VerifiedReader>,
    /// The last bad tree block found that covers data beyond its chunk.
    bad_tree: Mutex<Option<Mismatch>>,
}

impl Survey<'_> {
    /// Reads the data from `start` on, chunk by chunk, until the end or until a bad range extends
    /// beyond its chunk. Returns the offset at which to continue.
    fn read_from(
        &self,
        start: u64,
        threads: NonZeroUsize,
        add: &mut dyn FnMut(BadRange),
        progress: &mut Progress<'_>,
    ) -> Result<u64, Error> {
        let size = self.reader.size();
        let chunk = |number: u64| {
            let start = start + number * CHUNK;
            start..size.min(start + CHUNK)
        };
        let result = in_order(
            (size - start).div_ceil(CHUNK),
            threads,
            |number, scratch| self.bad_in(chunk(number), scratch),
            |number, bad| {
                let chunk = chunk(number);
                let mut end = chunk.end;
                for bad in bad {
                    end = end.max(bad.range.end);
                    add(bad);
                }
                if progress(end - chunk.start).is_break() {
                    return Err(Err(Error::Cancelled));
                }
                if end > chunk.end {
                    Err(Ok(end))
                } else {
                    Ok(())
                }
            },
        );
        match result {
            Ok(()) => Ok(size),
            Err(ended) => ended,
        }
    }

    /// The bad ranges that begin in a chunk. Reads it at once or, if that fails, block by block.
    fn bad_in(&self, chunk: Range<u64>, scratch: &mut Scratch) -> Vec<BadRange> {
        if let Some(mismatch) = self.known_mismatch(&chunk) {
            return vec![BadRange {
                range: chunk.start..mismatch.covers.end,
                reason: BadReason::Mismatch(mismatch),
            }];
        }
        let reader = &self.reader;
        let len = (chunk.end - chunk.start) as usize;
        if reader.read_borrowed(scratch, chunk.start, len).is_ok() {
            return Vec::new();
        }
        let mut bad = Vec::new();
        let mut next = chunk.start;
        while next < chunk.end {
            let mut block = reader.inner().block_at(next);
            if let Err(error) = reader.read_borrowed(scratch, next, (block.end - next) as usize) {
                let reason = BadReason::from(error);
                // Nothing below a bad tree block can be verified: no need to try each block.
                if let BadReason::Mismatch(mismatch) = &reason {
                    block.end = mismatch.covers.end;
                    if block.end > chunk.end {
                        *self.bad_tree.lock() = Some(mismatch.clone());
                    }
                }
                bad.push(BadRange {
                    range: next..block.end,
                    reason,
                });
            }
            next = block.end;
        }
        bad
    }

    /// A bad tree block that covers all of a chunk, if another thread has found one.
    fn known_mismatch(&self, chunk: &Range<u64>) -> Option<Mismatch> {
        let known = self.bad_tree.lock();
        let covers = &known.as_ref()?.covers;
        let is_inside = covers.start <= chunk.start && chunk.end <= covers.end;
        known.clone().filter(|_| is_inside)
    }
}

impl From<ReadError> for BadReason {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Rejected(reason) => match reason.downcast::<Mismatch>() {
                Ok(mismatch) => Self::Mismatch(*mismatch),
                Err(other) => Self::Unreadable(ReadError::Rejected(other)),
            },
            other => Self::Unreadable(other),
        }
    }
}
