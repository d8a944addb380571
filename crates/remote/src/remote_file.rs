use std::{io, ops::Range, sync::Arc, time::Duration};

use verimount_source::{ReadAt, ReadError, check_range, granules};

use crate::{
    Error, RemoteUrl, Session,
    client::{Client, Target},
    end::End,
    fetch,
    flight::{Flight, Patience},
    granules::{PART, bytes_of},
    limits::MAX_HINT,
    pool::Pool,
};

/// A file on a web server, in a registry or in a cloud.
///
/// It keeps up to 48 MiB in memory and uses up to 24 connections, over which requests of up to 16 MiB run.
/// Reads fetch granules of 128 KiB; [`will_need`](ReadAt::will_need) fetches ahead.
///
/// Failures that may pass are retried. A read fails with [`ReadError::Io`], which has an [`Error`] inside,
/// if a granule does not arrive within 60 seconds; the next read tries again. Dropping it ends all that is
/// under way.
pub struct RemoteFile {
    pool: Pool,
}

impl RemoteFile {
    /// Opens a file in a session of its own.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open(url: &RemoteUrl) -> Result<Self, Error> {
        Session::default().open(url)
    }

    pub(crate) fn open_in(session: &Session, target: Target) -> Result<Self, Error> {
        let client = Arc::new(Client::new(session, target)?);
        let end = End::ask(&client);
        let (version, first) = fetch::first(&client)?;
        let mut granules = end.wait(&client, &version);
        if !first.is_empty() {
            granules.push((0, first));
        }
        Ok(Self {
            pool: Pool::start(client, version, granules)?,
        })
    }

    /// Fills `buf` with these bytes as they arrive.
    fn copy(
        &self,
        mut buf: &mut [u8],
        range: &Range<u64>,
        flights: &[Arc<Flight>],
        patience: Patience,
    ) -> Result<(), Error> {
        for (granule, flight) in granules(range).zip(flights) {
            let bytes = flight.wait(patience)?;
            let here = bytes_of(&(granule..granule + 1), self.size());
            let from = (range.start.max(here.start) - here.start) as usize;
            let to = (range.end.min(here.end) - here.start) as usize;
            let (now, later) = buf.split_at_mut(to - from);
            now.copy_from_slice(&bytes[from..to]);
            buf = later;
        }
        Ok(())
    }

    fn read(&self, buf: &mut [u8], offset: u64, patience: Patience) -> Result<(), ReadError> {
        let len = buf.len();
        check_range(offset, len, self.size())?;
        let end = offset + len as u64;
        let (mut start, mut rest) = (offset, buf);
        while start < end {
            let part = start..end.min((start / PART + 1) * PART);
            let (now, later) = rest.split_at_mut((part.end - start) as usize);
            let read = self.pool.claim(&part).and_then(|flights| {
                // While this part arrives, the next come over other connections.
                self.will_need(part.end, end - part.end);
                self.copy(now, &part, &flights, patience)
            });
            read.map_err(io::Error::from)
                .map_err(ReadError::io(offset, len))?;
            (start, rest) = (part.end, later);
        }
        Ok(())
    }
}

impl ReadAt for RemoteFile {
    fn size(&self) -> u64 {
        self.pool.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.read(buf, offset, Patience::Full(self.pool.limits().read))
    }

    fn read_within(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<(), ReadError> {
        let patience = patience.min(self.pool.limits().read);
        self.read(buf, offset, Patience::WhileWell(patience))
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        check_range(range.start, len, self.size())?;
        self.pool
            .stream(range.clone(), take)
            .map_err(io::Error::from)
            .map_err(ReadError::io(range.start, len))
    }

    fn will_need(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len.min(MAX_HINT)).min(self.size());
        if offset < end {
            self.pool.need_soon(granules(&(offset..end)));
        }
    }

    fn distrust(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len).min(self.size());
        if offset < end {
            self.pool.distrust(granules(&(offset..end)));
        }
        // Another copy may be right: transfers and caches on the way damage bytes, too.
        true
    }
}
