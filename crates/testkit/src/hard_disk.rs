use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use verimount_source::{ReadAt, ReadError, WriteAt, WriteError};

/// How long the head takes to another place: the average seek of laptops' disks of 1 TB, by their
/// data sheets. Ways that matter here are shorter than the average; half a turn, which is 5.6 ms at
/// 5400 a minute, makes up for that.
const SEEK: Duration = Duration::from_millis(12);

/// How many bytes a second pass under the head: as many as such disks of 2020 wrote in order.
const RATE: u64 = 105_000_000;

/// A storage with the times of a hard disk that has no cache, and a clock that says how much of it
/// went by. Nobody waits for that time, so that the same requests take the same time everywhere.
///
/// A request that goes on where the last one ended only takes as long as its bytes take to pass
/// under the head. Any other takes a seek more; or, if it is a little further on, as long as what is
/// in between takes to pass.
#[derive(Debug)]
pub struct HardDisk<S> {
    inner: S,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where the last request ended.
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

    /// How much time all requests have taken so far.
    pub fn elapsed(&self) -> Duration {
        self.state().elapsed
    }

    /// How often the head had to seek so far.
    pub fn seeks(&self) -> u64 {
        self.state().seeks
    }

    /// Has a request take its time.
    fn pass(&self, offset: u64, len: u64) {
        let mut state = self.state();
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

    // A panic leaves a time that somebody has spent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long so many bytes take to pass under the head.
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
    fn only_what_goes_on_takes_no_seek() {
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
