use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use verimount_source::{ReadAt, ReadError};

/// A source of which every request takes a while, as over a network: any number of them at once.
///
/// What was said to be needed soon is on its way from then on.
#[derive(Debug)]
pub struct Slow<S> {
    inner: S,
    latency: Duration,
    expected: Mutex<Vec<Expected>>,
}

/// A range that was asked for early, and when it will be there.
#[derive(Debug)]
struct Expected {
    start: u64,
    end: u64,
    arrival: Instant,
}

/// How many ranges are remembered.
const MAX_EXPECTED: usize = 64;

impl<S> Slow<S> {
    /// `inner`, each request to which takes `latency`.
    pub fn new(inner: S, latency: Duration) -> Self {
        Self {
            inner,
            latency,
            expected: Mutex::default(),
        }
    }

    /// When the bytes of a request made now arrive.
    fn arrival(&self, start: u64, end: u64) -> Instant {
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
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
