use std::{
    thread,
    time::{Duration, Instant},
};

use verimount_source::{ReadAt, ReadError};
use verimount_sync::Mutex;

/// A source with a latency, as over a network. Any number of requests run concurrently.
///
/// Ranges announced by `will_need` are being fetched from then on.
#[derive(Debug)]
pub struct Slow<S> {
    inner: S,
    latency: Duration,
    expected: Mutex<Vec<Expected>>,
}

/// A prefetched range, and when it arrives.
#[derive(Debug)]
struct Expected {
    start: u64,
    end: u64,
    arrival: Instant,
}

/// The maximum number of prefetched ranges that are tracked.
const MAX_EXPECTED: usize = 64;

impl<S> Slow<S> {
    /// `inner` with this latency for each request.
    pub fn new(inner: S, latency: Duration) -> Self {
        Self {
            inner,
            latency,
            expected: Mutex::default(),
        }
    }

    /// When the bytes of a request made now arrive.
    fn arrival(&self, start: u64, end: u64) -> Instant {
        let expected = self.expected.lock();
        expected
            .iter()
            .filter(|range| range.start <= start && end <= range.end)
            .map(|range| range.arrival)
            .min()
            .unwrap_or_else(|| Instant::now() + self.latency)
    }
}

impl<S: ReadAt> ReadAt for Slow<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let arrival = self.arrival(offset, offset + buf.len() as u64);
        thread::sleep(arrival.saturating_duration_since(Instant::now()));
        self.inner.read_exact_at(buf, offset)
    }

    fn will_need(&self, offset: u64, len: u64) {
        let mut expected = self.expected.lock();
        if expected.len() == MAX_EXPECTED {
            expected.remove(0);
        }
        expected.push(Expected {
            start: offset,
            end: offset.saturating_add(len),
            arrival: Instant::now() + self.latency,
        });
    }
}
