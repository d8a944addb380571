use std::{io, ops::Range, sync::Arc};

use verimount_source::{Ask, Fetch, Given, Hint, ReadError, check_range, granules};

use crate::{
    Error,
    flight::{Flight, Patience},
    granules::{PART, bytes_of},
    limits::MAX_HINT,
    open_file::OpenFile,
};

/// A file on a web server, in a registry or in a cloud.
///
/// All of a process together keep up to 48 MiB in memory, and use up to 24 connections to each server and 64 in all, over which
/// requests of up to 16 MiB run. Reads fetch granules of 128 KiB; a [hint](Fetch::hint) fetches ahead.
///
/// Failures that may pass are retried. A read fails with [`ReadError::Io`], which has an [`Error`] inside,
/// if a granule does not arrive within 60 seconds; the next read tries again. Dropping it ends all that is
/// under way.
pub struct RemoteFile(pub(crate) Arc<OpenFile>);

impl RemoteFile {
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
            let here = bytes_of(&(granule..granule + 1), self.length());
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
        check_range(offset, len, self.length())?;
        let end = offset + len as u64;
        let (mut start, mut rest) = (offset, buf);
        while start < end {
            let part = start..end.min((start / PART + 1) * PART);
            let (now, later) = rest.split_at_mut((part.end - start) as usize);
            let read = self.0.claim(&part).and_then(|flights| {
                // While this part arrives, the next come over other connections.
                self.hint(part.end..end, Hint::Need);
                self.copy(now, &part, &flights, patience)
            });
            read.map_err(io::Error::from)
                .map_err(ReadError::io(offset, len))?;
            (start, rest) = (part.end, later);
        }
        Ok(())
    }
}

impl Fetch for RemoteFile {
    fn length(&self) -> u64 {
        self.0.size()
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        let longest = self.0.session().limits().read;
        let patience = match ask.patience {
            None => Patience::Full(longest),
            Some(patience) => Patience::WhileWell(patience.min(longest)),
        };
        self.read(buf, offset, patience)?;
        Ok(Given::default())
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        check_range(range.start, len, self.length())?;
        self.0
            .stream(range.clone(), take)
            .map_err(io::Error::from)
            .map_err(ReadError::io(range.start, len))
    }

    fn hint(&self, range: Range<u64>, _: Hint) {
        let most = range.start.saturating_add(MAX_HINT);
        let end = range.end.min(most).min(self.length());
        if range.start < end {
            self.0.need_soon(granules(&(range.start..end)));
        }
    }

    fn distrust(&self, range: Range<u64>, _: &Given) -> u32 {
        let end = range.end.min(self.length());
        if range.start < end {
            self.0.distrust(granules(&(range.start..end)));
        }
        // Another copy may be right: transfers and caches on the way damage bytes, too.
        1
    }

    fn mend(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
