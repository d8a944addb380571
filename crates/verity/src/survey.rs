use std::{num::NonZeroUsize, ops::Range};

use thiserror::Error;
use verimount_source::{ReadAt, ReadError, Scratch, in_order};

use crate::{Mismatch, Place, VerifiedReader};

/// How much is read at a time while nothing is wrong.
const CHUNK: u64 = 1 << 20;

/// A range of data that cannot be handed out.
#[derive(Debug)]
pub struct BadRange {
    /// The bytes of the data.
    pub range: Range<u64>,
    /// What is wrong with its first block.
    pub reason: BadReason,
}

/// Why data cannot be handed out.
#[derive(Debug, Error)]
pub enum BadReason {
    /// A block does not match: one of the data, or one of the tree that vouches for it.
    #[error(transparent)]
    Mismatch(Mismatch),
    /// The data or the tree could not be read.
    #[error(transparent)]
    Unreadable(ReadError),
}

/// Reads all data with up to `threads` threads and reports every bad range to `found`, in order.
///
/// Adjacent bad blocks make one range as long as the same kind of block is to blame. `progress` is
/// told, now and then, how many bytes more were looked at.
pub fn survey(
    reader: &VerifiedReader,
    threads: NonZeroUsize,
    found: &mut dyn FnMut(BadRange),
    progress: &mut dyn FnMut(u64),
) {
    let size = reader.size();
    let mut open: Option<BadRange> = None;
    let Ok(()) = in_order(
        size.div_ceil(CHUNK),
        threads,
        |chunk, scratch| survey_chunk(reader, chunk_range(chunk, size), scratch),
        |chunk, bad| {
            for next in bad {
                match &mut open {
                    Some(last) if last.continues_in(&next) => last.range.end = next.range.end,
                    _ => open.replace(next).into_iter().for_each(&mut *found),
                }
            }
            let range = chunk_range(chunk, size);
            progress(range.end - range.start);
            Ok::<_, std::convert::Infallible>(())
        },
    );
    open.into_iter().for_each(found);
}

fn chunk_range(chunk: u64, size: u64) -> Range<u64> {
    let start = chunk * CHUNK;
    start..size.min(start + CHUNK)
}

impl BadRange {
    fn continues_in(&self, next: &Self) -> bool {
        self.range.end == next.range.start
            && match (&self.reason, &next.reason) {
                (BadReason::Mismatch(a), BadReason::Mismatch(b)) => {
                    a.place == b.place && (a.place == Place::Data || a.offset == b.offset)
                }
                (BadReason::Unreadable(_), BadReason::Unreadable(_)) => true,
                _ => false,
            }
    }
}

/// The bad blocks of a chunk: read at once if nothing is wrong, else block by block.
fn survey_chunk(
    reader: &VerifiedReader,
    chunk: Range<u64>,
    scratch: &mut Scratch,
) -> Vec<BadRange> {
    let len = (chunk.end - chunk.start) as usize;
    if reader.read_borrowed(scratch, chunk.start, len).is_ok() {
        return Vec::new();
    }
    let mut bad = Vec::new();
    let mut next = chunk.start;
    while next < chunk.end {
        let mut block = reader.block_at(next);
        if let Err(error) = reader.read_borrowed(scratch, next, (block.end - next) as usize) {
            let reason = BadReason::from(error);
            // A bad tree block vouches for nothing that is below it: no need to try each.
            if let BadReason::Mismatch(mismatch) = &reason {
                block.end = mismatch.covers.end.min(chunk.end);
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
