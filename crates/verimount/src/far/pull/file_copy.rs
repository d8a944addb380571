//! A file as it is at one of several places, which is opened when it is first read.

use std::{io, sync::Arc, time::Duration};

use verimount_source::{ReadAt, ReadError};

use crate::{
    Error,
    opening::{LONGEST, Opening},
    place::Place,
};

/// Opens a file at a place.
pub(super) type OpenFile = fn(&Place) -> Result<Arc<dyn ReadAt>, Error>;

/// A copy of a file.
pub(super) struct FileCopy {
    place: Arc<Place>,
    open: OpenFile,
    size: u64,
    opening: Arc<Opening<Arc<dyn ReadAt>>>,
}

impl FileCopy {
    pub(super) fn new(place: Arc<Place>, open: OpenFile, size: u64) -> Self {
        Self {
            place,
            open,
            size,
            opening: Opening::closed(),
        }
    }

    fn read(&self, buf: &mut [u8], offset: u64, patience: Duration) -> Result<(), ReadError> {
        let (place, open, size) = (self.place.clone(), self.open, self.size);
        let find = move || opened(open(&place), size);
        let file = self
            .opening
            .within(self.place.patience_to_open(patience), find);
        let file = file.map_err(ReadError::io(offset, buf.len()))?;
        file.read_within(buf, offset, patience)
    }
}

/// The file that was opened, if it has this size.
fn opened(file: Result<Arc<dyn ReadAt>, Error>, size: u64) -> io::Result<Arc<dyn ReadAt>> {
    let file = file.map_err(io::Error::other)?;
    if file.size() == size {
        Ok(file)
    } else {
        let reason = format!("it has {} bytes, not {size}", file.size());
        Err(io::Error::other(reason))
    }
}

impl ReadAt for FileCopy {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.read(buf, offset, LONGEST)
    }

    fn read_within(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<(), ReadError> {
        self.read(buf, offset, patience)
    }

    fn will_need(&self, offset: u64, len: u64) {
        if let Some(file) = self.opening.if_open() {
            file.will_need(offset, len);
        }
    }
}
