//! What a volume is stored on, and the latch: after one failed write or flush, no other write
//! reaches it.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use verimount_source::{WriteAt, WriteError};

use crate::{Error, SECTOR, geometry::StorageSize};

/// What a volume is stored on: one device, or one for data and one for all the rest.
#[derive(Clone)]
pub struct Devices {
    metadata: Arc<dyn WriteAt>,
    data: Option<Arc<dyn WriteAt>>,
}

impl Devices {
    /// Everything on one device.
    pub fn new(device: Arc<dyn WriteAt>) -> Self {
        Self {
            metadata: device,
            data: None,
        }
    }

    /// Superblock, journal and tags on `metadata`, the data, and nothing else, on `data`.
    pub fn with_data_device(metadata: Arc<dyn WriteAt>, data: Arc<dyn WriteAt>) -> Self {
        Self {
            metadata,
            data: Some(data),
        }
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

/// A volume's devices while it is open. All offsets are in bytes.
pub(crate) struct Storage {
    devices: Devices,
    failure: OnceLock<Arc<Error>>,
    /// Held while something is made durable, until a failure is known to all. The system tells one
    /// caller only that it has lost what was written before: to another one that asks at the same
    /// time it would say that all is well.
    durability: Mutex<()>,
    /// How many flushes of all devices have succeeded.
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

    pub(crate) fn metadata(&self) -> &dyn WriteAt {
        &*self.devices.metadata
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

    /// Makes all that was written to either device durable. Callers that wait for one another share
    /// a flush.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let before = self.flushes.load(SeqCst);
        self.durably(|devices| {
            // The first of two may have been under way already. The second began after this call.
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

    /// Makes all that was written to the metadata device durable.
    pub(crate) fn flush_metadata(&self) -> Result<(), Error> {
        self.durably(|devices| devices.metadata.flush())
    }

    /// Lets the metadata device begin to write what the next flush makes durable.
    pub(crate) fn begin_metadata_flush(&self) -> Result<(), Error> {
        self.durably(|devices| devices.metadata.begin_flush())
    }

    /// Fails if anything had failed before that must not be followed by a write.
    pub(crate) fn check_latch(&self) -> Result<(), Error> {
        match self.failure.get() {
            Some(failure) => Err(Error::Latched(failure.clone())),
            None => Ok(()),
        }
    }

    /// Why no write is possible any more.
    pub(crate) fn failure(&self) -> Option<&Arc<Error>> {
        self.failure.get()
    }

    /// Makes `error` the reason for which every later write fails, unless there is one already.
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
        // What a panic leaves was not made durable, and nobody has been told that it was.
        let _durability = self
            .durability
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.change(change)
    }

    fn change(&self, change: impl FnOnce(&Devices) -> Result<(), WriteError>) -> Result<(), Error> {
        self.check_latch()?;
        change(&self.devices).map_err(|error| self.latch(error.into()))
    }
}
