//! A file as it is at one of several places, which is opened when it is first read.

use std::{io, sync::Arc, time::Duration};

use verimount_source::{ReadAt, ReadError};
use verimount_sync::Mutex;

use crate::{Error, place::Place};

/// Opens a file at a place.
pub(super) type OpenFile = fn(&Place) -> Result<Arc<dyn ReadAt>, Error>;

/// A copy of a file.
pub(super) struct FileCopy {
    place: Arc<Place>,
    open: OpenFile,
    size: u64,
    opened: Mutex<Option<Arc<dyn ReadAt>>>,
}

impl FileCopy {
    pub(super) fn new(place: Arc<Place>, open: OpenFile, size: u64) -> Self {
        Self {
            place,
            open,
            size,
            opened: Mutex::default(),
        }
    }

    /// What is open, or is opened now. A failure is not kept.
    fn opened(&self, offset: u64, len: usize) -> Result<Arc<dyn ReadAt>, ReadError> {
        let mut opened = self.opened.lock();
        if let Some(opened) = &*opened {
            return Ok(opened.clone());
        }
        let failed = |error: io::Error| ReadError::io(offset, len)(error);
        let file = (self.open)(&self.place).map_err(|error| failed(io::Error::other(error)))?;
        if file.size() != self.size {
            let reason = format!("it has {} bytes, not {}", file.size(), self.size);
            return Err(failed(io::Error::other(reason)));
        }
        Ok(opened.insert(file).clone())
    }
}

impl ReadAt for FileCopy {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.opened(offset, buf.len())?.read_exact_at(buf, offset)
    }

    fn read_within(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<(), ReadError> {
        let file = self.opened(offset, buf.len())?;
        file.read_within(buf, offset, patience)
    }

    fn will_need(&self, offset: u64, len: u64) {
        if let Some(file) = &*self.opened.lock() {
            file.will_need(offset, len);
        }
    }
}
