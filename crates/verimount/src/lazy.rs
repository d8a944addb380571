//! Content that is opened when something of it is first read, and on another machine again after it was replaced there.

use std::{
    fmt, io,
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use verimount_source::{ReadAt, ReadError, check_range};
use verimount_sync::{Condvar, Mutex};

use crate::{
    Error,
    accepted::Accepted,
    beheaded::beheaded,
    far::{is_replaced, replaced},
    fault::Fault,
    opened_seal::OpenedSeal,
    place::Place,
};

/// How long nothing is looked for on this machine where something else was found: searching it takes many reads.
const REFUSAL: Duration = Duration::from_secs(60);

/// Content at a place.
pub(crate) struct Lazy {
    place: Arc<Place>,
    accepted: Accepted,
    /// The seal of the content, wherever it was found. At the place there may be another one later.
    seal: OpenedSeal,
    /// The attempt to open it that has succeeded, is under way or comes next.
    attempt: Mutex<Arc<Attempt>>,
    /// What readers know of it who do not wait until it has ended.
    opening: Mutex<Opening>,
    opening_ended: Condvar,
    /// Why the place is left alone, and since when.
    refused: Mutex<Option<(Instant, Failure)>>,
}

/// Whether a thread opens content, and how the last one failed.
#[derive(Default)]
struct Opening {
    is_under_way: bool,
    failure: Option<Failure>,
}

/// An attempt to open content. All readers that need it wait for the same one, and share its failure: one after the
/// other, each would wait as long as the first.
type Attempt = OnceLock<Result<Files, Failure>>;

/// Data and tree of open content.
#[derive(Clone)]
struct Files {
    data: Arc<dyn ReadAt>,
    tree: Arc<dyn ReadAt>,
}

/// Why content could not be opened.
#[derive(Debug, Clone)]
struct Failure(Arc<io::Error>);

impl Lazy {
    /// The same seal, whose data and tree are opened at `place` when something of them is first read.
    pub(crate) fn closed(
        place: impl Into<Arc<Place>>,
        accepted: Accepted,
        seal: OpenedSeal,
    ) -> OpenedSeal {
        Self::new(place, accepted, &seal, Attempt::new()).read_for(seal)
    }

    /// The same seal, which was found at `place`.
    pub(crate) fn open(
        place: impl Into<Arc<Place>>,
        accepted: Accepted,
        seal: OpenedSeal,
    ) -> OpenedSeal {
        let attempt = Attempt::from(Ok(Files::of(&seal)));
        Self::new(place, accepted, &seal, attempt).read_for(seal)
    }

    fn new(
        place: impl Into<Arc<Place>>,
        accepted: Accepted,
        seal: &OpenedSeal,
        attempt: Attempt,
    ) -> Arc<Self> {
        Arc::new(Self {
            place: place.into(),
            accepted,
            seal: seal.clone(),
            attempt: Mutex::new(attempt.into()),
            opening: Mutex::default(),
            opening_ended: Condvar::new(),
            refused: Mutex::default(),
        })
    }

    fn read_for(self: Arc<Self>, seal: OpenedSeal) -> OpenedSeal {
        let part = |size, choose| LazyPart {
            lazy: self.clone(),
            size,
            choose,
        };
        let (data_size, tree_size) = seal.sizes();
        let data = part(data_size, |files: &Files| files.data.clone());
        let tree = part(tree_size, |files: &Files| files.tree.clone());
        seal.with_sources(Arc::new(data), Arc::new(tree))
    }

    /// A failure is not kept: the next read tries again, unless there is something else on this machine.
    fn opened(&self, attempt: &Arc<Attempt>) -> io::Result<Files> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal.into());
        }
        let opened = attempt.get_or_init(|| self.find().map_err(Failure::from));
        opened.clone().map_err(|failure| {
            self.forget(attempt);
            failure.into()
        })
    }

    fn find(&self) -> io::Result<Files> {
        let found = self.place.content().and_then(|(source, _)| {
            let found = self.accepted.find(&self.place, source.clone());
            found.or_else(|error| beheaded(&self.seal, &self.place, source).ok_or(error))
        });
        let seal = found.map_err(|error| match error.fault() {
            Fault::Io(_) => match error.into_fault() {
                Fault::Io(reason) => reason,
                _ => unreachable!("it was looked at"),
            },
            _ => self.refuse(error),
        })?;
        match seal.meaning() == self.seal.meaning() {
            true => Ok(Files::of(&seal)),
            false => Err(replaced()),
        }
    }

    /// Leaves a place on this machine alone for a while if it was read, and does not have the content.
    fn refuse(&self, error: Error) -> io::Error {
        let is_lasting = error.kind().is_about_data() && !self.place.is_slow();
        let failure = Failure::from(io::Error::other(error));
        if is_lasting {
            *self.refused.lock() = Some((Instant::now(), failure.clone()));
        }
        failure.into()
    }

    fn refusal(&self) -> Option<Failure> {
        let refused = self.refused.lock();
        let refused = refused.as_ref();
        let recent = refused.filter(|(since, _)| since.elapsed() < REFUSAL);
        recent.map(|(_, failure)| failure.clone())
    }

    /// What is open, or becomes so as long as `patience`. Opening goes on after that.
    fn opened_within(self: &Arc<Self>, patience: Duration) -> io::Result<Files> {
        if let Some(files) = self.if_open() {
            return Ok(files);
        }
        let attempt = self.attempt.lock().clone();
        if !self.place.is_slow() {
            return self.opened(&attempt);
        }
        let mut opening = self.opening.lock();
        if !opening.is_under_way {
            let lazy = self.clone();
            let thread = thread::Builder::new().name("open".to_owned());
            thread.spawn(move || lazy.open_for_others(&attempt))?;
            opening.is_under_way = true;
        }
        let is_under_way = |opening: &mut Opening| opening.is_under_way;
        let opening = self
            .opening_ended
            .wait_timeout_while(opening, patience, is_under_way);
        match (&opening.failure, opening.is_under_way) {
            (_, true) => Err(io::ErrorKind::TimedOut.into()),
            (Some(failure), false) => Err(failure.clone().into()),
            (None, false) => self.if_open().ok_or_else(|| io::ErrorKind::TimedOut.into()),
        }
    }

    fn open_for_others(&self, attempt: &Arc<Attempt>) {
        let opened = self.opened(attempt);
        let mut opening = self.opening.lock();
        *opening = Opening {
            is_under_way: false,
            failure: opened.err().map(Failure::from),
        };
        drop(opening);
        self.opening_ended.notify_all();
    }

    /// The next read opens the content again, if that has not been done already.
    fn forget(&self, attempt: &Arc<Attempt>) {
        let mut current = self.attempt.lock();
        if Arc::ptr_eq(&current, attempt) {
            *current = Arc::default();
        }
    }

    /// What is open already, without waiting.
    fn if_open(&self) -> Option<Files> {
        let attempt = self.attempt.lock().clone();
        attempt.get()?.clone().ok()
    }
}

impl Files {
    fn of(seal: &OpenedSeal) -> Self {
        Self {
            data: seal.data().clone(),
            tree: seal.tree().clone(),
        }
    }
}

/// The data or the tree of content.
struct LazyPart {
    lazy: Arc<Lazy>,
    size: u64,
    choose: fn(&Files) -> Arc<dyn ReadAt>,
}

impl LazyPart {
    /// Reads what is open; `None` if it must be opened again, as the same content may be stored there in another way now.
    fn read_open(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<Option<()>, ReadError> {
        let attempt = self.lazy.attempt.lock().clone();
        let files = self.lazy.opened_within(patience);
        let files = files.map_err(ReadError::io(offset, buf.len()))?;
        match (self.choose)(&files).read_within(buf, offset, patience) {
            Err(ReadError::Io { source, .. }) if is_replaced(&source) => {
                self.lazy.forget(&attempt);
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    fn read(&self, attempt: &Arc<Attempt>, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let files = self.lazy.opened(attempt);
        let files = files.map_err(ReadError::io(offset, buf.len()))?;
        (self.choose)(&files).read_exact_at(buf, offset)
    }

    fn if_open(&self) -> Option<Arc<dyn ReadAt>> {
        self.lazy.if_open().as_ref().map(self.choose)
    }
}

impl ReadAt for LazyPart {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size)?;
        let attempt = self.lazy.attempt.lock().clone();
        match self.read(&attempt, buf, offset) {
            // The same content may be stored there in another way now.
            Err(ReadError::Io { source, .. }) if is_replaced(&source) => {
                self.lazy.forget(&attempt);
                let attempt = self.lazy.attempt.lock().clone();
                self.read(&attempt, buf, offset)
            }
            read => read,
        }
    }

    fn read_within(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size)?;
        for _ in 0..2 {
            if self.read_open(buf, offset, patience)?.is_some() {
                return Ok(());
            }
        }
        Err(ReadError::io(offset, buf.len())(replaced()))
    }

    fn will_need(&self, offset: u64, len: u64) {
        // Opening would wait.
        if let Some(source) = self.if_open() {
            source.will_need(offset, len);
        }
    }

    fn distrust(&self, offset: u64, len: u64) -> bool {
        self.if_open()
            .is_some_and(|source| source.distrust(offset, len))
    }

    fn mend(&self, offset: u64, right: &[u8]) -> io::Result<()> {
        match self.if_open() {
            Some(source) => source.mend(offset, right),
            // It may be missing for now, which says nothing about whether it can be written.
            None => Err(io::Error::other("it is not open")),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::new(failure.0.kind(), failure)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

#[cfg(all(test, feature = "remote"))]
mod tests {
    use std::{fs, sync::mpsc::channel};

    use verimount_testkit::{HttpServer, eventually};
    use verimount_verity::Identity;

    use super::*;
    use crate::{Location, OpenOptions, SealOptions, seal};

    const DATA: [u8; 100] = [7; 100];

    /// A file with its seal, the same seal, and what accepts it.
    fn sealed() -> (Vec<u8>, OpenedSeal, Accepted) {
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

    fn fails(content: &dyn ReadAt) {
        assert!(content.read_exact_at(&mut [0; 10], 0).is_err());
    }

    #[test]
    fn a_failure_is_not_kept() {
        let (file, seal, accepted) = sealed();
        let server = HttpServer::start(file, |number, _, right| match number {
            0..3 => right.only_status(404),
            _ => right,
        });
        let seal = Lazy::closed(place(&server), accepted, seal);
        (0..3).for_each(|_| fails(seal.data()));
        let mut buf = [0; 10];
        seal.data().read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(buf, DATA[..10]);
    }

    #[test]
    fn a_file_of_other_content_is_left_alone_for_a_while_and_a_missing_one_is_not() {
        let (file, seal, accepted) = sealed();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mirror");
        let place = Place::new(path.as_path().into(), &OpenOptions::new());
        let lazy = Lazy::new(place, accepted, &seal, Attempt::new());
        let content = lazy.clone().read_for(seal);
        fails(content.data());
        assert!(lazy.refusal().is_none());
        fs::write(&path, "something else").unwrap();
        fails(content.data());
        fs::write(&path, file).unwrap();
        // It is not even looked at.
        fails(content.data());
        let refused = lazy.refused.lock().take();
        let (since, failure) = refused.expect("it is left alone");
        let long_ago = since.checked_sub(REFUSAL).expect("the machine runs");
        *lazy.refused.lock() = Some((long_ago, failure));
        content.data().read_exact_at(&mut [0; 10], 0).unwrap();
    }

    #[test]
    fn those_who_wait_share_an_attempt() {
        const READERS: usize = 8;
        let (file, seal, accepted) = sealed();
        let (all_wait, told) = channel::<()>();
        let told = Mutex::new(told);
        let server = HttpServer::start(file, move |_, _, right| {
            // Told, or the test has failed.
            let _ = told.lock().recv();
            right.only_status(404)
        });
        let lazy = Lazy::new(place(&server), accepted, &seal, Attempt::new());
        let attempt = lazy.attempt.lock().clone();
        let seal = &lazy.clone().read_for(seal);
        thread::scope(move |scope| {
            for _ in 0..READERS {
                scope.spawn(|| fails(seal.data()));
            }
            // Besides the readers, there are this one and the next.
            eventually("all wait", || Arc::strong_count(&attempt) == READERS + 2);
            drop(all_wait);
        });
        assert_eq!(server.requests().len(), 1);
    }
}
