use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use verimount_source::{ReadAt, ReadError, WriteAt, WriteError};

use crate::CrashPoint;

/// What a device writes whole or not at all, in bytes.
pub(crate) const SECTOR: usize = 512;

/// Devices in memory, and everything that is done to them, in order.
#[derive(Debug)]
pub struct Recording {
    before: Vec<Vec<u8>>,
    log: Arc<Mutex<Log>>,
}

/// One of the devices of a [`Recording`].
#[derive(Debug)]
pub struct Recorder {
    device: usize,
    log: Arc<Mutex<Log>>,
}

#[derive(Debug)]
struct Log {
    /// What is read from each device.
    contents: Vec<Vec<u8>>,
    events: Vec<Event>,
}

/// Something that was done to a device.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) device: usize,
    pub(crate) action: Action,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Write {
        offset: usize,
        bytes: Vec<u8>,
        /// It returned when it would survive a crash.
        is_durable: bool,
    },
    Flush,
}

impl Recording {
    /// Devices that hold these bytes, whole sectors, durably.
    pub fn new(before: Vec<Vec<u8>>) -> Self {
        let log = Log {
            contents: before.clone(),
            events: Vec::new(),
        };
        Self {
            before,
            log: Arc::new(Mutex::new(log)),
        }
    }

    /// The devices.
    pub fn devices(&self) -> impl Iterator<Item = Arc<Recorder>> {
        (0..self.before.len()).map(|device| {
            Arc::new(Recorder {
                device,
                log: self.log.clone(),
            })
        })
    }

    /// How many writes and flushes there were so far.
    pub fn events(&self) -> usize {
        lock(&self.log).events.len()
    }

    /// Every point at which a crash may have met what was recorded: during each write and flush,
    /// and after the last.
    pub fn crash_points(&self) -> impl Iterator<Item = CrashPoint> + use<> {
        let events = lock(&self.log).events.clone();
        CrashPoint::all(self.before.clone(), events)
    }
}

impl Recorder {
    fn write(&self, bytes: Vec<u8>, offset: u64, is_durable: bool) {
        assert!(
            bytes.len().is_multiple_of(SECTOR) && offset.is_multiple_of(SECTOR as u64),
            "a write of {} bytes at {offset} is not one of whole sectors",
            bytes.len()
        );
        let offset = offset as usize;
        let mut log = lock(&self.log);
        log.contents[self.device][offset..offset + bytes.len()].copy_from_slice(&bytes);
        log.events.push(Event {
            device: self.device,
            action: Action::Write {
                offset,
                bytes,
                is_durable,
            },
        });
    }
}

impl ReadAt for Recorder {
    fn size(&self) -> u64 {
        lock(&self.log).contents[self.device].size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        lock(&self.log).contents[self.device].read_exact_at(buf, offset)
    }
}

impl WriteAt for Recorder {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write(bytes.to_vec(), offset, false);
        Ok(())
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write(bytes.to_vec(), offset, true);
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.write(vec![0; len as usize], offset, false);
        Ok(())
    }

    fn flush(&self) -> Result<(), WriteError> {
        lock(&self.log).events.push(Event {
            device: self.device,
            action: Action::Flush,
        });
        Ok(())
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
