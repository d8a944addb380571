//! The devices that store a volume, and the error latch: after a failed write or flush, no further
//! write reaches them.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use verimount_source::{WriteAt, WriteError};
use verimount_sync::Mutex;

use crate::{Error, Header, SECTOR, geometry::StorageSize};

/// The devices that store a volume: one device, or one for the data and one for everything else.
#[derive(Clone)]
pub struct Devices {
    metadata: Arc<dyn WriteAt>,
    data: Option<Arc<dyn WriteAt>>,
    header: Option<Header>,
}

impl Devices {
    /// A single device for everything.
    pub fn new(device: Arc<dyn WriteAt>) -> Self {
        Self {
            metadata: device,
            data: None,
            header: None,
        }
    }

    /// Superblock, journal and tags on `metadata`; only the data on `data`.
    pub fn with_data_device(metadata: Arc<dyn WriteAt>, data: Arc<dyn WriteAt>) -> Self {
        Self {
            metadata,
            data: Some(data),
            header: None,
        }
    }

    /// These devices, read by this superblock instead of their own.
    pub fn with_header(self, header: Header) -> Self {
        Self {
            header: Some(header),
            ..self
        }
    }

    /// The device with the superblock.
    pub(crate) fn metadata(&self) -> &dyn WriteAt {
        &*self.metadata
    }

    /// The superblock that takes the place of their own.
    pub(crate) fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    pub(crate) fn has_data_device(&self) -> bool {
        self.data.is_some()
    }

    pub(crate) fn size(&self) -> StorageSize {
        StorageSize {
            metadata: self.metadata.size() / SECTOR,
            data: self.data().size() / SECTOR,
        }
    }

    fn data(&self) -> &Arc<dyn WriteAt> {
        self.data.as_ref().unwrap_or(&self.metadata)
    }
}

/// The devices of an open volume. All offsets are in bytes.
pub(crate) struct Storage {
    devices: Devices,
    failure: OnceLock<Arc<Error>>,
    /// Held during a flush, until a failure is latched. The system reports a lost write to only one
    /// caller: a concurrent flush would succeed.
    durability: Mutex<()>,
    /// The number of successful flushes of all devices.
    flushes: AtomicU64,
}

impl Storage {
    pub(crate) fn new(devices: Devices) -> Self {
        Self {
            devices,
            failure: OnceLock::new(),
            durability: Mutex::default(),
            flushes: AtomicU64::new(0),
        }
    }

    pub(crate) fn size(&self) -> StorageSize {
        self.devices.size()
    }

    pub(crate) fn devices(&self) -> &Devices {
        &self.devices
    }

    pub(crate) fn read_metadata(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        Ok(self.devices.metadata.read_exact_at(buf, offset)?)
    }

    pub(crate) fn will_need_metadata(&self, offset: u64, len: u64) {
        self.devices.metadata.will_need(offset, len);
    }

    pub(crate) fn read_data(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        Ok(self.devices.data().read_exact_at(buf, offset)?)
    }

    pub(crate) fn write_data(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.change(|devices| devices.data().write_all_at(bytes, offset))
    }

    pub(crate) fn zero_data(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.change(|devices| devices.data().zero(offset, len))
    }

    pub(crate) fn write_metadata(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.change(|devices| devices.metadata.write_all_at(bytes, offset))
    }

    pub(crate) fn write_metadata_durable(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.durably(|devices| devices.metadata.write_durable_at(bytes, offset))
    }

    /// Makes all writes to either device durable. Callers that wait for each other share a flush.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let before = self.flushes.load(SeqCst);
        self.durably(|devices| {
            // The first of two flushes may have started before this call; the second started after
            // it.
            if self.flushes.load(SeqCst) >= before + 2 {
                return Ok(());
            }
            if let Some(data) = &devices.data {
                data.flush()?;
            }
            devices.metadata.flush()?;
            self.flushes.fetch_add(1, SeqCst);
            Ok(())
        })
    }

    /// Makes all writes to the metadata device durable.
    pub(crate) fn flush_metadata(&self) -> Result<(), Error> {
        self.durably(|devices| devices.metadata.flush())
    }

    /// Starts writing to the metadata device the data that the next flush makes durable.
    pub(crate) fn begin_metadata_flush(&self) -> Result<(), Error> {
        self.durably(|devices| devices.metadata.begin_flush())
    }

    /// Fails if an earlier failure forbids further writes.
    pub(crate) fn check_latch(&self) -> Result<(), Error> {
        match self.failure.get() {
            Some(failure) => Err(Error::Latched(failure.clone())),
            None => Ok(()),
        }
    }

    /// The failure that forbids further writes.
    pub(crate) fn failure(&self) -> Option<&Arc<Error>> {
        self.failure.get()
    }

    /// Latches `error` as the reason why every later write fails, unless one is latched already.
    pub(crate) fn latch(&self, error: Error) -> Error {
        let failure = self.failure.get_or_init(|| {
            tracing::error!(%error, "the volume is read-only from now on");
            Arc::new(error)
        });
        Error::Latched(failure.clone())
    }

    fn durably(
        &self,
        change: impl FnOnce(&Devices) -> Result<(), WriteError>,
    ) -> Result<(), Error> {
        // After a panic the data is not durable, and no caller was told that it is.
        let _durability = self.durability.lock();
        self.change(change)
    }

    fn change(&self, change: impl FnOnce(&Devices) -> Result<(), WriteError>) -> Result<(), Error> {
        self.check_latch()?;
        change(&self.devices).map_err(|error| self.latch(error.into()))
    }
}
