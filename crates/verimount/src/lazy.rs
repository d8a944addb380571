//! Content that is opened when something of it is first read, and on another machine again after it was replaced there.

use std::{
    io,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use verimount_source::{Ask, Fetch, Given, Hint, ReadError, check_range, stream_in_pieces};
use verimount_sync::Mutex;
use verimount_verity::Seal;

use crate::{
    Error,
    accepted::Accepted,
    beheaded::beheaded,
    far::{is_replaced, other_release, replaced},
    fault::Fault,
    opening::{Failure, LONGEST, Opening},
    place::Place,
};

/// How long nothing is looked for where something else was found: another release anywhere, or anything on this machine, as
/// searching it takes many reads.
const REFUSAL: Duration = Duration::from_secs(60);

/// Content at a place.
pub(crate) struct Lazy {
    place: Arc<Place>,
    accepted: Accepted,
    /// The seal of the content, wherever it was found. At the place there may be another one later.
    seal: Seal,
    opening: Arc<Opening<Files>>,
    /// Why the place is left alone, and since when.
    refused: Mutex<Option<(Instant, Failure)>>,
}

/// Data and tree of open content.
struct Files {
    data: Arc<dyn Fetch>,
    tree: Arc<dyn Fetch>,
}

impl Lazy {
    /// `seal`, whose data and tree are opened at `place` when something of them is first read.
    pub(crate) fn closed(place: impl Into<Arc<Place>>, accepted: Accepted, seal: Seal) -> Seal {
        Self::new(place, accepted, &seal, Opening::closed()).read_for(seal)
    }

    /// `seal`, whose data and tree were opened at `place`.
    pub(crate) fn open(place: impl Into<Arc<Place>>, accepted: Accepted, seal: Seal) -> Seal {
        let opening = Opening::open(Files::of(&seal));
        Self::new(place, accepted, &seal, opening).read_for(seal)
    }

    fn new(
        place: impl Into<Arc<Place>>,
        accepted: Accepted,
        seal: &Seal,
        opening: Arc<Opening<Files>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            place: place.into(),
            accepted,
            seal: seal.clone(),
            opening,
            refused: Mutex::default(),
        })
    }

    fn read_for(self: Arc<Self>, seal: Seal) -> Seal {
        let part = |size, is_data, choose| LazyPart {
            lazy: self.clone(),
            size,
            is_data,
            choose,
        };
        let (data_size, tree_size) = (seal.geometry().data_size(), seal.geometry().tree_size());
        let data = part(data_size, true, |files: &Files| files.data.clone());
        let tree = part(tree_size, false, |files: &Files| files.tree.clone());
        seal.with_sources(Arc::new(data), Arc::new(tree))
    }

    /// What is open, or becomes so as long as `patience`, unless there is something else. `range` of the data is wanted.
    fn opened_within(
        self: &Arc<Self>,
        patience: Option<Duration>,
        range: Range<u64>,
    ) -> io::Result<Arc<Files>> {
        let patience = patience.unwrap_or(LONGEST);
        if let Some(refusal) = self.refusal() {
            return Err(refusal.into());
        }
        let lazy = self.clone();
        let patience = self.place.patience_to_open(patience);
        self.opening.within(patience, move || lazy.find(&range))
    }

    fn find(&self, range: &Range<u64>) -> io::Result<Files> {
        let content = self.place.content();
        let (source, _) = content.map_err(|error| self.refuse(error))?;
        let found = self.accepted.find(&self.place, source.clone());
        let found =
            found.or_else(|error| beheaded(&self.seal, &self.place, source.clone()).ok_or(error));
        let found = match found {
            Ok(seal) if seal.is_of_same_content(&self.seal) => return Ok(Files::of(&seal)),
            Err(error) if !error.kind().is_about_data() => return Err(self.refuse(error)),
            other => other,
        };
        let release = other_release(&self.place, source, &self.accepted, &self.seal, range);
        match (release, found) {
            (Ok(Some(failure)), _) => Err(self.leave_alone(failure)),
            (Ok(None), Ok(_)) => Err(replaced()),
            (Err(error), _) | (Ok(None), Err(error)) => Err(self.refuse(error)),
        }
    }

    /// Why a place cannot be read. One on this machine that was read, and does not have the content, is left alone for a while.
    fn refuse(&self, error: Error) -> io::Error {
        let is_lasting = error.kind().is_about_data() && !self.place.is_slow();
        let failure = match error.fault() {
            Fault::Io(_) => match error.into_fault() {
                Fault::Io(reason) => return reason,
                _ => unreachable!("it was looked at"),
            },
            _ => io::Error::other(error),
        };
        if is_lasting {
            self.leave_alone(failure)
        } else {
            failure
        }
    }

    fn leave_alone(&self, failure: io::Error) -> io::Error {
        let failure = Failure::from(failure);
        *self.refused.lock() = Some((Instant::now(), failure.clone()));
        failure.into()
    }

    /// The error of a read for which it could not be opened. A place on another machine that has something else is as bad as one
    /// that gives wrong bytes.
    fn failed(&self, offset: u64, len: usize, error: io::Error) -> ReadError {
        let failure = error.get_ref();
        let failure = failure.and_then(|inner| inner.downcast_ref::<Failure>());
        let inner = failure.and_then(Failure::inner::<Error>);
        let is_wrong = inner.is_some_and(|error| error.kind().is_about_data());
        if is_wrong && self.place.is_slow() {
            ReadError::Rejected(Box::new(error))
        } else {
            ReadError::io(offset, len)(error)
        }
    }

    fn refusal(&self) -> Option<Failure> {
        let refused = self.refused.lock();
        let refused = refused.as_ref();
        let recent = refused.filter(|(since, _)| since.elapsed() < REFUSAL);
        recent.map(|(_, failure)| failure.clone())
    }
}

impl Files {
    fn of(seal: &Seal) -> Self {
        Self {
            data: seal.data_unverified().clone(),
            tree: seal.tree_unverified().clone(),
        }
    }
}

/// The data or the tree of content.
struct LazyPart {
    lazy: Arc<Lazy>,
    size: u64,
    is_data: bool,
    choose: fn(&Files) -> Arc<dyn Fetch>,
}

impl LazyPart {
    fn if_open(&self) -> Option<Arc<dyn Fetch>> {
        self.lazy.opening.if_open().as_deref().map(self.choose)
    }
}

impl Fetch for LazyPart {
    fn length(&self) -> u64 {
        self.size
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        check_range(offset, buf.len(), self.size)?;
        let len = buf.len();
        let wanted = if self.is_data {
            offset..offset + len as u64
        } else {
            0..0
        };
        for _ in 0..2 {
            let files = self.lazy.opened_within(ask.patience, wanted.clone());
            let files = files.map_err(|error| self.lazy.failed(offset, len, error))?;
            match (self.choose)(&files).fetch(buf, offset, ask) {
                // The content may be stored there in another way now.
                Err(ReadError::Io { source, .. }) if is_replaced(&source) => {
                    self.lazy.opening.forget(&files);
                }
                fetched => return fetched,
            }
        }
        Err(ReadError::io(offset, len)(replaced()))
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        stream_in_pieces(self, range, take)
    }

    fn hint(&self, range: Range<u64>, hint: Hint) {
        // Opening would wait.
        if let Some(source) = self.if_open() {
            source.hint(range, hint);
        }
    }

    fn distrust(&self, range: Range<u64>, given: &Given) -> u32 {
        self.if_open()
            .map_or(0, |source| source.distrust(range, given))
    }

    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()> {
        match self.if_open() {
            Some(source) => source.mend(right, offset),
            // It may be missing for now, which says nothing about whether it can be written.
            None => Err(io::Error::other("it is not open")),
        }
    }
}

#[cfg(all(test, feature = "remote"))]
mod tests {
    use std::fs;

    use verimount_testkit::HttpServer;
    use verimount_verity::Identity;

    use super::*;
    use crate::{Location, OpenOptions, SealOptions, seal};

    const DATA: [u8; 100] = [7; 100];

    /// A file with its seal, the same seal, and what accepts it.
    fn sealed() -> (Vec<u8>, Seal, Accepted) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, DATA).unwrap();
        let made = seal(&path, &SealOptions::new().append(true)).unwrap();
        let Identity::FileDigest(digest) = made.identity else {
            unreachable!()
        };
        let accepted = Accepted::FsVerity {
            digest: Some(digest),
            key: None,
        };
        let place = Place::new(path.as_path().into(), &OpenOptions::new());
        let (source, _) = place.content().unwrap();
        let found = accepted.find(&place, source).unwrap();
        (fs::read(path).unwrap(), found, accepted)
    }

    fn place(server: &HttpServer) -> Place {
        let location: Location = server.url("/file").parse().unwrap();
        Place::new(location, &OpenOptions::new())
    }

    fn fails(content: &dyn Fetch) {
        let fetched = content.fetch(&mut [0; 10], 0, Ask::default());
        assert!(fetched.is_err());
    }

    #[test]
    fn a_failure_is_not_kept() {
        let (file, seal, accepted) = sealed();
        let server = HttpServer::start(file, |number, _, right| match number {
            0..3 => right.only_status(404),
            _ => right,
        });
        let seal = Lazy::closed(place(&server), accepted, seal);
        (0..3).for_each(|_| fails(&**seal.data_unverified()));
        let mut buf = [0; 10];
        let fetched = seal.data_unverified().fetch(&mut buf, 0, Ask::default());
        fetched.unwrap();
        assert_eq!(buf, DATA[..10]);
    }

    /// Its disk may have to start.
    #[test]
    fn what_is_on_this_machine_is_waited_for() {
        let (file, seal, accepted) = sealed();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mirror");
        fs::write(&path, file).unwrap();
        let place = Place::new(path.as_path().into(), &OpenOptions::new());
        let seal = Lazy::closed(place, accepted, seal);
        let mut buf = [0; 10];
        let now = Ask::within(Some(Duration::ZERO));
        seal.data_unverified().fetch(&mut buf, 0, now).unwrap();
        assert_eq!(buf, DATA[..10]);
    }

    #[test]
    fn a_file_of_other_content_is_left_alone_for_a_while_and_a_missing_one_is_not() {
        let (file, seal, accepted) = sealed();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mirror");
        let place = Place::new(path.as_path().into(), &OpenOptions::new());
        let lazy = Lazy::new(place, accepted, &seal, Opening::closed());
        let content = lazy.clone().read_for(seal);
        fails(&**content.data_unverified());
        assert!(lazy.refusal().is_none());
        fs::write(&path, "something else").unwrap();
        fails(&**content.data_unverified());
        fs::write(&path, file).unwrap();
        // It is not even looked at.
        fails(&**content.data_unverified());
        let refused = lazy.refused.lock().take();
        let (since, failure) = refused.expect("it is left alone");
        let long_ago = since.checked_sub(REFUSAL).expect("the machine runs");
        *lazy.refused.lock() = Some((long_ago, failure));
        let fetched = content
            .data_unverified()
            .fetch(&mut [0; 10], 0, Ask::default());
        fetched.unwrap();
    }
}
