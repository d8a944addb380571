use std::ops::Range;

use verimount_source::{ReadAt, ReadError};
use verimount_sync::Mutex;

/// A source that records its hints and reads.
#[derive(Debug)]
pub struct Watched<S> {
    inner: S,
    events: Mutex<Vec<(WatchedEvent, Range<u64>)>>,
}

/// What happened to a [`Watched`] source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchedEvent {
    /// The range was said to be needed soon.
    Hint,
    /// A sequential reader was said to reach the range.
    Reach,
    /// The range was read.
    Read,
}

impl<S> Watched<S> {
    /// Records what happens to `inner` from now on.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            events: Mutex::default(),
        }
    }

    /// What has happened since this was asked last, in order.
    pub fn take_events(&self) -> Vec<(WatchedEvent, Range<u64>)> {
        std::mem::take(&mut self.events.lock())
    }

    fn record(&self, event: WatchedEvent, offset: u64, len: u64) {
        let range = offset..offset.saturating_add(len);
        self.events.lock().push((event, range));
    }
}

impl<S: ReadAt> ReadAt for Watched<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.record(WatchedEvent::Read, offset, buf.len() as u64);
        self.inner.read_exact_at(buf, offset)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.record(WatchedEvent::Hint, offset, len);
        self.inner.will_need(offset, len);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        self.record(WatchedEvent::Reach, offset, len);
        self.inner.will_reach(offset, len);
    }
}
