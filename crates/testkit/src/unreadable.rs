use std::ops::Range;

use verimount_source::{ReadAt, ReadError};

/// A source with an unreadable range: reads that touch it are rejected, as where blocks do not match.
#[derive(Debug)]
pub struct Unreadable<S> {
    source: S,
    range: Range<u64>,
}

impl<S> Unreadable<S> {
    /// `source` without these bytes.
    pub fn new(source: S, range: Range<u64>) -> Self {
        Self { source, range }
    }
}

impl<S: ReadAt> ReadAt for Unreadable<S> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        if offset < self.range.end && self.range.start < offset + buf.len() as u64 {
            return Err(ReadError::Rejected("not that".into()));
        }
        self.source.read_exact_at(buf, offset)
    }
}
