use std::time::Duration;

use verimount_source::{ReadAt, ReadError, WriteAt, WriteError};
use verimount_sync::Mutex;

/// The time of a seek: the average of 1 TB laptop disks by their data sheets. The relevant seeks
/// are shorter than the average; in turn, the rotational latency (5.6 ms at 5400 rpm) is not
/// counted.
const SEEK: Duration = Duration::from_millis(12);

/// The transfer rate in bytes per second: the sequential write rate of such disks in 2020.
const RATE: u64 = 105_000_000;

/// A storage that models the timing of a hard disk without a cache. The time is only counted, not
/// waited for, so the same requests take the same time everywhere.
///
/// A request that continues where the last one ended takes only its transfer time. Any other
/// request also takes a seek, or, if it is only a little further on, the time for the gap to pass
/// under the head.
#[derive(Debug)]
pub struct HardDisk<S> {
    inner: S,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The offset at which the last request ended.
    head: u64,
    seeks: u64,
    elapsed: Duration,
}

impl<S> HardDisk<S> {
    /// A hard disk with the contents of `inner`, its head at the beginning.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            state: Mutex::default(),
        }
    }

    /// The total time of all requests so far.
    pub fn elapsed(&self) -> Duration {
        self.state.lock().elapsed
    }

    /// The number of seeks so far.
    pub fn seeks(&self) -> u64 {
        self.state.lock().seeks
    }

    /// Counts the time of a request.
    fn pass(&self, offset: u64, len: u64) {
        let mut state = self.state.lock();
        let skipped = offset.checked_sub(state.head).map(passing);
        match skipped.filter(|&skipped| skipped <= SEEK) {
            Some(skipped) => state.elapsed += skipped,
            None => {
                state.seeks += 1;
                state.elapsed += SEEK;
            }
        }
        state.elapsed += passing(len);
        state.head = offset + len;
    }
}

/// The transfer time of this many bytes.
fn passing(bytes: u64) -> Duration {
    let seconds = Duration::from_secs(bytes / RATE);
    seconds + Duration::from_nanos(bytes % RATE * 1_000_000_000 / RATE)
}

impl<S: ReadAt> ReadAt for HardDisk<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.pass(offset, buf.len() as u64);
        self.inner.read_exact_at(buf, offset)
    }
}

impl<S: WriteAt> WriteAt for HardDisk<S> {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.pass(offset, bytes.len() as u64);
        self.inner.write_all_at(bytes, offset)
    }

    /// Takes as long as writing zeros.
    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.pass(offset, len);
        self.inner.zero(offset, len)
    }

    /// Takes no time: there is no cache.
    fn flush(&self) -> Result<(), WriteError> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use verimount_source::MemoryStorage;

    use super::*;

    #[test]
    fn only_sequential_requests_take_no_seek() {
        let disk = HardDisk::new(MemoryStorage::new(vec![0; 4 << 20]));
        let takes = |request: &dyn Fn()| {
            let before = (disk.elapsed(), disk.seeks());
            request();
            (disk.elapsed() - before.0, disk.seeks() - before.1)
        };
        let write = |offset| disk.write_all_at(&[1; 10_500], offset).unwrap();
        let own = Duration::from_micros(100);
        assert_eq!(takes(&|| write(0)), (own, 0));
        assert_eq!(takes(&|| write(10_500)), (own, 0));
        assert_eq!(takes(&|| write(42_000)), (3 * own, 0), "a little further");
        assert_eq!(takes(&|| write(0)), (SEEK + own, 1), "back");
        assert_eq!(takes(&|| write(3 << 20)), (SEEK + own, 1), "far");
        let read = || disk.read_exact_at(&mut [0; 10_500], 0).unwrap();
        assert_eq!(takes(&read), (SEEK + own, 1));
        assert_eq!(takes(&|| disk.zero(10_500, 10_500).unwrap()), (own, 0));
        assert_eq!(takes(&|| disk.flush().unwrap()), (Duration::ZERO, 0));
    }
}
