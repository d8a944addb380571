use std::{
    io,
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use verimount_source::{Ask, Fetch, Given, Hint, ReadError, check_range, granules};

use crate::{
    Error, Session,
    client::{Client, Target},
    closing::Closing,
    end::End,
    engine::Engine,
    fetch,
    fetcher::Fetcher,
    flight::Patience,
    granules::{PART, bytes_of},
    held::FileId,
    limits::MAX_HINT,
    queue::Piece,
};

/// A file on a web server, in a registry or in a cloud.
///
/// All of a process together keep up to 48 MiB in memory, and use up to 24 connections to each server and 64 in all, over which
/// requests of up to 16 MiB run. Reads fetch granules of 128 KiB, unless what they need is on its way; a
/// [hint](Fetch::hint) fetches ahead.
///
/// Failures that may pass are retried. A read fails with [`ReadError::Io`], which has an [`Error`] inside,
/// if a granule does not arrive within 60 seconds; the next read tries again. Dropping it ends all that is
/// under way.
pub struct RemoteFile {
    fetcher: Arc<Fetcher>,
    engine: Arc<Engine>,
    id: FileId,
}

impl RemoteFile {
    pub(crate) fn open(
        session: &Session,
        target: Target,
        engine: Arc<Engine>,
    ) -> Result<Arc<Self>, Error> {
        let client = Arc::new(Client::new(session, target)?);
        let end = End::ask(&client);
        let (version, first) = fetch::first(&client)?;
        let here = end.wait(&client, &version).into_iter().chain(first);
        let fetcher = Arc::new(Fetcher {
            client,
            version,
            closing: Closing::default(),
        });
        let id = engine.open(&fetcher, here);
        let opened = Arc::new(Self {
            fetcher,
            engine,
            id,
        });
        session.add(&opened)?;
        Ok(opened)
    }

    fn session(&self) -> &Session {
        self.fetcher.client.session()
    }

    /// The pieces with these bytes, which may still be on their way.
    fn claim(&self, bytes: &Range<u64>) -> Result<Vec<Piece>, Error> {
        self.engine.claim(self.id, bytes, &self.granules_of(bytes))
    }

    /// The bytes of the granules of these.
    fn granules_of(&self, bytes: &Range<u64>) -> Range<u64> {
        bytes_of(&granules(bytes), self.length())
    }

    /// Ends the wait of all readers, and in time all that is fetched.
    pub(crate) fn close(&self) {
        self.engine.close(self.id);
        self.fetcher.closing.close();
    }

    fn read(&self, buf: &mut [u8], offset: u64, patience: Patience) -> Result<(), ReadError> {
        let len = buf.len();
        check_range(offset, len, self.length())?;
        let end = offset + len as u64;
        let (mut start, mut rest) = (offset, buf);
        while start < end {
            let part = start..end.min((start / PART + 1) * PART);
            let (now, later) = rest.split_at_mut((part.end - start) as usize);
            let read = self.claim(&part).and_then(|pieces| {
                // While this part arrives, the next come over other connections.
                self.hint(part.end..end, Hint::Need);
                copy(now, &part, &pieces, patience)
            });
            read.map_err(io::Error::from)
                .map_err(ReadError::io(offset, len))?;
            (start, rest) = (part.end, later);
        }
        Ok(())
    }
}

/// Fills `buf` with these bytes as they arrive.
fn copy(
    mut buf: &mut [u8],
    range: &Range<u64>,
    pieces: &[Piece],
    patience: Patience,
) -> Result<(), Error> {
    for (here, flight) in pieces {
        let bytes = flight.wait(patience)?;
        let from = (range.start.max(here.start) - here.start) as usize;
        let to = (range.end.min(here.end) - here.start) as usize;
        let (now, later) = buf.split_at_mut(to - from);
        now.copy_from_slice(&bytes[from..to]);
        buf = later;
    }
    Ok(())
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        // What is under way is not waited for: a thread may be looking up a host, which nothing interrupts.
        self.close();
    }
}

impl Fetch for RemoteFile {
    fn length(&self) -> u64 {
        self.fetcher.version.size
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        let longest = self.session().limits().read;
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
        self.fetcher
            .stream(range.clone(), take)
            .map_err(io::Error::from)
            .map_err(ReadError::io(range.start, len))
    }

    fn hint(&self, range: Range<u64>, hint: Hint) {
        let most = range.start.saturating_add(MAX_HINT);
        let end = range.end.min(most).min(self.length());
        if range.start < end {
            let bytes = range.start..end;
            let bytes = match hint {
                Hint::Need | Hint::Reach => self.granules_of(&bytes),
                Hint::Alone => bytes,
            };
            self.engine.need_soon(self.id, &bytes);
        }
    }

    fn distrust(&self, range: Range<u64>, _: &Given) -> u32 {
        let end = range.end.min(self.length());
        if range.start < end {
            let granules = self.granules_of(&(range.start..end));
            let forgotten = self.engine.distrust(self.id, &granules);
            let distrusted = &self.session().counters().distrusted;
            distrusted.fetch_add(forgotten, Relaxed);
        }
        // Another copy may be right: transfers and caches on the way damage bytes, too.
        1
    }

    fn mend(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
