use std::{io, sync::Arc};

use verimount_source::{GrowingFile, ReadAt, ReadError, WriteAt, WriteError};
use verimount_sync::Mutex;

use crate::CrashPoint;

/// The unit that a device writes atomically, in bytes.
pub(crate) const SECTOR: usize = 512;

/// Devices or files in memory, with a log of all changes to them, in order.
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
    /// The current contents of each device, as read.
    contents: Vec<Vec<u8>>,
    events: Vec<Event>,
}

/// A change to a device.
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
        /// It was durable when it returned.
        is_durable: bool,
    },
    SetLen(usize),
    Flush,
    /// A failed flush: the writes that it should make durable are lost, although they can still be
    /// read.
    Loss,
}

impl Recording {
    /// Devices with these durable contents: whole sectors, except for files, which may have any
    /// length.
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

    /// The number of writes and flushes so far.
    pub fn events(&self) -> usize {
        self.log.lock().events.len()
    }

    /// The crash point for a crash now.
    pub fn crash_now(&self) -> CrashPoint {
        CrashPoint::last(self.before.clone(), &self.log.lock().events)
    }

    /// Every crash point of the recording: during each write and flush, and after the last.
    pub fn crash_points(&self) -> impl Iterator<Item = CrashPoint> + use<> {
        let events = self.log.lock().events.clone();
        CrashPoint::all(self.before.clone(), events)
    }
}

impl Recorder {
    /// Loses all writes to the device that are not durable, as a failing flush does.
    pub(crate) fn lose(&self) {
        self.log.lock().events.push(Event {
            device: self.device,
            action: Action::Loss,
        });
    }

    /// Writes to a device without growing it.
    fn write(&self, bytes: Vec<u8>, offset: u64, is_durable: bool) {
        let end = offset + bytes.len() as u64;
        assert!(end <= self.size(), "{end} is past the end of the device");
        self.write_or_grow(bytes, offset, is_durable);
    }

    fn write_or_grow(&self, bytes: Vec<u8>, offset: u64, is_durable: bool) {
        assert!(
            bytes.len().is_multiple_of(SECTOR) && offset.is_multiple_of(SECTOR as u64),
            "a write of {} bytes at {offset} is not aligned to sectors",
            bytes.len()
        );
        let offset = offset as usize;
        let mut log = self.log.lock();
        let content = &mut log.contents[self.device];
        put(content, offset, &bytes);
        log.events.push(Event {
            device: self.device,
            action: Action::Write {
                offset,
                bytes,
                is_durable,
            },
        });
    }

    fn log(&self, action: Action) {
        self.log.lock().events.push(Event {
            device: self.device,
            action,
        });
    }
}

impl ReadAt for Recorder {
    fn size(&self) -> u64 {
        self.log.lock().contents[self.device].size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.log.lock().contents[self.device].read_exact_at(buf, offset)
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
        self.log(Action::Flush);
        Ok(())
    }
}

impl GrowingFile for Recorder {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !bytes.is_empty() {
            self.write_or_grow(bytes.to_vec(), offset, false);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = len as usize;
        self.log.lock().contents[self.device].resize(len, 0);
        self.log(Action::SetLen(len));
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.log(Action::Flush);
        Ok(())
    }
}

/// Writes to a file, growing it if needed.
pub(crate) fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}
