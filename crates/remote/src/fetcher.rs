//! How to get the bytes of an open file.

use std::{mem, ops::Range, sync::Arc};

use crate::{
    Error,
    answer::Version,
    client::Client,
    closing::Closing,
    fetch::{self, Landing},
    granules::PART,
};

/// A version of a file, and how to get its bytes, until it is closed.
pub(crate) struct Fetcher {
    pub(crate) client: Arc<Client>,
    pub(crate) version: Version,
    pub(crate) closing: Closing,
}

impl Fetcher {
    /// Fetches bytes in the calling thread.
    ///
    /// # Errors
    /// Those of fetching.
    pub(crate) fn fetch(&self, bytes: Range<u64>, landing: &mut impl Landing) -> Result<(), Error> {
        fetch::pieces(&self.client, &self.version, &self.closing, bytes, landing)
    }

    /// Fetches a range in the calling thread, with a request for each [`PART`] of it, and keeps nothing.
    ///
    /// # Errors
    /// Those of fetching.
    pub(crate) fn stream(
        &self,
        range: Range<u64>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut streamed = Streamed {
            take,
            spare: Vec::new(),
        };
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + PART);
            self.fetch(start..end, &mut streamed)?;
            start = end;
        }
        Ok(())
    }
}

/// Bytes that are handed on as they arrive.
struct Streamed<'a> {
    take: &'a mut dyn FnMut(&[u8]),
    spare: Vec<u8>,
}

impl Landing for Streamed<'_> {
    fn buffer(&mut self) -> Vec<u8> {
        mem::take(&mut self.spare)
    }

    fn landed(&mut self, bytes: Vec<u8>) {
        (self.take)(&bytes);
        self.spare = bytes;
    }

    fn failed(&mut self, _: &Error) {
        // Whoever streams waits for as long as attempts are made.
    }
}
