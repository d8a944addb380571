//! An open file, whose granules the engine fetches.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use verimount_source::{GRANULE, granules};

use crate::{
    Error, Session,
    client::{Client, Target},
    end::End,
    engine::Engine,
    fetch,
    fetcher::Fetcher,
    flight::Flight,
    held::FileId,
};

/// A file, until it is [closed](Self::close).
pub(crate) struct OpenFile {
    fetcher: Arc<Fetcher>,
    engine: Arc<Engine>,
    id: FileId,
}

impl OpenFile {
    pub(crate) fn open(
        session: &Session,
        target: Target,
        engine: Arc<Engine>,
    ) -> Result<Arc<Self>, Error> {
        let client = Arc::new(Client::new(session, target)?);
        let end = End::ask(&client);
        let (version, first) = fetch::first(&client)?;
        let here = end.wait(&client, &version).into_iter().chain(first);
        let fetcher = Arc::new(Fetcher::new(client, version));
        let id = engine.open(&fetcher, here);
        let opened = Arc::new(Self {
            fetcher,
            engine,
            id,
        });
        session.add(&opened)?;
        Ok(opened)
    }

    pub(crate) fn session(&self) -> &Session {
        self.fetcher.session()
    }

    pub(crate) fn size(&self) -> u64 {
        self.fetcher.size()
    }

    /// The granules with these bytes, which may still be on their way.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn claim(&self, bytes: &Range<u64>) -> Result<Vec<Arc<Flight>>, Error> {
        let to_end = bytes.end.is_multiple_of(GRANULE) || bytes.end == self.size();
        self.engine.claim(self.id, granules(bytes), to_end)
    }

    /// Fetches granules early, if there is room.
    pub(crate) fn need_soon(&self, granules: Range<u64>) {
        self.engine.need_soon(self.id, granules);
    }

    /// Forgets granules that were found to be wrong.
    pub(crate) fn distrust(&self, granules: Range<u64>) {
        let forgotten = self.engine.distrust(self.id, granules);
        let distrusted = &self.session().counters().distrusted;
        distrusted.fetch_add(forgotten * GRANULE, Relaxed);
    }

    /// Fetches a range in the calling thread, and keeps nothing.
    ///
    /// # Errors
    /// Those of fetching.
    pub(crate) fn stream(
        &self,
        range: Range<u64>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        self.fetcher.stream(range, take)
    }

    /// Ends the wait of all readers, and in time all that is fetched.
    pub(crate) fn close(&self) {
        self.engine.close(self.id);
        self.fetcher.close();
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // What is under way is not waited for: a thread may be looking up a host, which nothing interrupts.
        self.close();
    }
}
