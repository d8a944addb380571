//! A file as it is at one of several places, which is opened when it is first read.

use std::{io, ops::Range, sync::Arc};

use verimount_source::{Ask, Fetch, Given, Hint, ReadError, stream_in_pieces};

use crate::{
    Error,
    opening::{LONGEST, Opening},
    place::Place,
};

/// Opens a file at a place.
pub(super) type OpenFile = fn(&Place) -> Result<Arc<dyn Fetch>, Error>;

/// A copy of a file.
pub(super) struct FileCopy {
    place: Arc<Place>,
    open: OpenFile,
    size: u64,
    opening: Arc<Opening<Arc<dyn Fetch>>>,
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
}

/// The file that was opened, if it has this size.
fn opened(file: Result<Arc<dyn Fetch>, Error>, size: u64) -> io::Result<Arc<dyn Fetch>> {
    let file = file.map_err(io::Error::other)?;
    if file.length() == size {
        Ok(file)
    } else {
        let reason = format!("it has {} bytes, not {size}", file.length());
        Err(io::Error::other(reason))
    }
}

impl Fetch for FileCopy {
    fn length(&self) -> u64 {
        self.size
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        let (place, open, size) = (self.place.clone(), self.open, self.size);
        let find = move || opened(open(&place), size);
        let patience = ask.patience.unwrap_or(LONGEST);
        let file = self
            .opening
            .within(self.place.patience_to_open(patience), find);
        let file = file.map_err(ReadError::io(offset, buf.len()))?;
        file.fetch(buf, offset, ask)
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        stream_in_pieces(self, range, take)
    }

    fn hint(&self, range: Range<u64>, hint: Hint) {
        if let Some(file) = self.opening.if_open() {
            file.hint(range, hint);
        }
    }

    fn distrust(&self, range: Range<u64>, given: &Given) -> u32 {
        let file = self.opening.if_open();
        file.map_or(0, |file| file.distrust(range, given))
    }

    fn mend(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
