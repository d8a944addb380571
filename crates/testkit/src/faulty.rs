use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use verimount_source::{ReadAt, ReadError, WriteAt, WriteError};

/// The distance by which a misdirected write misses its position, in bytes.
const MISS: u64 = 4096;

/// A fault of a request to a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A read fails.
    Read,
    /// A write or flush fails and has no effect.
    Write,
    /// A write fails after storing its first half.
    ShortWrite,
    /// A write has no effect, but reports success.
    LostWrite,
    /// A write goes to another position, but reports success.
    MisdirectedWrite,
    /// A read panics: a bug in the program, not a fault of the storage.
    Panic,
}

impl Fault {
    /// All faults that a storage may have.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::ShortWrite,
        Self::LostWrite,
        Self::MisdirectedWrite,
    ];
}

/// A storage with exactly one fault.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    fault: Fault,
    /// The number of requests of the fault's kind that still succeed before it; the maximum value
    /// once the fault has occurred.
    left: AtomicU64,
}

impl<S> Faulty<S> {
    /// `inner` with a fault after `good` successful requests of the fault's kind.
    pub fn new(inner: S, fault: Fault, good: u64) -> Self {
        Self {
            inner,
            fault,
            left: AtomicU64::new(good),
        }
    }

    /// Whether the fault has occurred.
    pub fn has_failed(&self) -> bool {
        self.left.load(SeqCst) == u64::MAX
    }

    /// Whether the fault affects this request, which any of `faults` may affect.
    fn fails(&self, faults: &[Fault]) -> bool {
        let passes = |left| match left {
            0 | u64::MAX => u64::MAX,
            left => left - 1,
        };
        faults.contains(&self.fault)
            && self
                .left
                .fetch_update(SeqCst, SeqCst, |left| Some(passes(left)))
                == Ok(0)
    }
}

impl<S: WriteAt> Faulty<S> {
    /// Performs a write with the fault; `None` if the fault does not affect it.
    fn write_faulty(&self, bytes: &[u8], offset: u64) -> Option<Result<(), WriteError>> {
        let writes = &Fault::ALL[1..];
        self.fails(writes).then(|| match self.fault {
            Fault::Read | Fault::Panic | Fault::Write => Err(failed_write(offset, bytes.len())),
            Fault::ShortWrite => {
                // Whole sectors, as on a device.
                let half = bytes.len() / 2 / 512 * 512;
                self.inner.write_all_at(&bytes[..half], offset)?;
                Err(failed_write(offset, bytes.len()))
            }
            Fault::LostWrite => Ok(()),
            Fault::MisdirectedWrite => {
                let end = offset + MISS + bytes.len() as u64;
                let place = if end <= self.size() {
                    offset + MISS
                } else {
                    offset.saturating_sub(MISS)
                };
                self.inner.write_all_at(bytes, place)
            }
        })
    }
}

impl<S: ReadAt> ReadAt for Faulty<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        assert!(!self.fails(&[Fault::Panic]), "injected panic");
        if self.fails(&[Fault::Read]) {
            Err(ReadError::Io {
                offset,
                len: buf.len(),
                source: io::Error::other("injected fault"),
            })
        } else {
            self.inner.read_exact_at(buf, offset)
        }
    }
}

impl<S: WriteAt> WriteAt for Faulty<S> {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write_faulty(bytes, offset)
            .unwrap_or_else(|| self.inner.write_all_at(bytes, offset))
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write_faulty(bytes, offset)
            .unwrap_or_else(|| self.inner.write_durable_at(bytes, offset))
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.write_faulty(&vec![0; len as usize], offset)
            .unwrap_or_else(|| self.inner.zero(offset, len))
    }

    fn flush(&self) -> Result<(), WriteError> {
        if self.fails(&[Fault::Write]) {
            Err(WriteError::Flush(io::Error::other("injected fault")))
        } else {
            self.inner.flush()
        }
    }
}

fn failed_write(offset: u64, len: usize) -> WriteError {
    WriteError::Io {
        offset,
        len: len as u64,
        source: io::Error::other("injected fault"),
    }
}

#[cfg(test)]
mod tests {
    use verimount_source::MemoryStorage;

    use super::*;

    /// The sectors that hold ones after a write of ones to the middle with the fault, and whether
    /// the write failed.
    fn after(fault: Fault) -> (Vec<u8>, bool) {
        let storage = Faulty::new(MemoryStorage::new(vec![0; 3 * 4096]), fault, 0);
        let result = storage.write_all_at(&[1; 1024], 4096);
        assert_eq!(storage.has_failed(), fault != Fault::Read);
        let ones = storage.inner.to_vec();
        let ones = (0..ones.len()).filter(|&at| ones[at] == 1).step_by(512);
        (ones.map(|at| (at / 512) as u8).collect(), result.is_err())
    }

    #[test]
    fn each_fault_has_its_effect() {
        assert_eq!(after(Fault::Read), (vec![8, 9], false));
        assert_eq!(after(Fault::Write), (vec![], true));
        assert_eq!(after(Fault::ShortWrite), (vec![8], true));
        assert_eq!(after(Fault::LostWrite), (vec![], false));
        assert_eq!(after(Fault::MisdirectedWrite), (vec![16, 17], false));
    }

    #[test]
    fn only_one_request_has_the_fault() {
        let storage = Faulty::new(MemoryStorage::new(vec![0; 4096]), Fault::Write, 2);
        storage.write_all_at(&[1; 512], 0).unwrap();
        storage.flush().unwrap();
        assert!(storage.flush().is_err());
        storage.flush().unwrap();
        let storage = Faulty::new(storage.inner, Fault::Read, 1);
        let mut buf = [0; 512];
        storage.read_exact_at(&mut buf, 0).unwrap();
        assert!(storage.read_exact_at(&mut buf, 0).is_err());
        storage.read_exact_at(&mut buf, 0).unwrap();
    }
}
