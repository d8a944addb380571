use std::ops::Range;

use crate::{ReadAt, ReadError, Scratch, Streams, check_range};

/// Decides what is read ahead: tells another source [where](ReadAt::will_reach) its sequential readers will go.
///
/// It belongs above all other layers, where reads come as their readers make them. Further down, reads of several layers
/// are mixed, and rounded to the units of each; there it would be a guess.
#[derive(Debug)]
pub struct ReadAhead<S> {
    source: S,
    streams: Streams,
}

impl<S: ReadAt> ReadAhead<S> {
    /// Watches the reads of `source`.
    pub fn new(source: S) -> Self {
        Self {
            source,
            streams: Streams::default(),
        }
    }

    /// The source.
    pub fn inner(&self) -> &S {
        &self.source
    }

    /// Checks a read, and announces what its reader will reach.
    fn announce(&self, offset: u64, len: usize) -> Result<(), ReadError> {
        check_range(offset, len, self.size())?;
        let ahead = self.streams.ahead_of(&(offset..offset + len as u64));
        let end = ahead.end.min(self.size());
        if ahead.start < end {
            self.source.will_reach(ahead.start, end - ahead.start);
        }
        Ok(())
    }
}

impl<S: ReadAt> ReadAt for ReadAhead<S> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.announce(offset, buf.len())?;
        self.source.read_exact_at(buf, offset)
    }

    fn read_borrowed<'s>(
        &self,
        scratch: &'s mut Scratch,
        offset: u64,
        len: usize,
    ) -> Result<&'s [u8], ReadError> {
        self.announce(offset, len)?;
        self.source.read_borrowed(scratch, offset, len)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.source.will_need(offset, len);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        self.source.will_reach(offset, len);
    }

    fn will_stop(&self, offset: u64) {
        self.streams.will_stop(offset);
    }

    fn will_end(&self, content: Range<u64>) {
        self.streams.will_end(content);
    }
}
