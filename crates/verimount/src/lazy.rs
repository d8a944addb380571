//! Content that is opened when something of it is first read, and on another machine again after it was replaced there.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use verimount_source::{ReadAt, ReadError, check_range};
use verimount_sync::Mutex;

use crate::{
    Error,
    accepted::Accepted,
    beheaded::beheaded,
    far::{is_replaced, replaced},
    fault::Fault,
    opened_seal::OpenedSeal,
    opening::{Failure, LONGEST, Opening},
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
    opening: Arc<Opening<Files>>,
    /// Why the place is left alone, and since when.
    refused: Mutex<Option<(Instant, Failure)>>,
}

/// Data and tree of open content.
struct Files {
    data: Arc<dyn ReadAt>,
    tree: Arc<dyn ReadAt>,
}

impl Lazy {
    /// The same seal, whose data and tree are opened at `place` when something of them is first read.
    pub(crate) fn closed(
        place: impl Into<Arc<Place>>,
        accepted: Accepted,
        seal: OpenedSeal,
    ) -> OpenedSeal {
        Self::new(place, accepted, &seal, Opening::closed()).read_for(seal)
    }

    /// The same seal, which was found at `place`.
    pub(crate) fn open(
        place: impl Into<Arc<Place>>,
        accepted: Accepted,
        seal: OpenedSeal,
    ) -> OpenedSeal {
        let opening = Opening::open(Files::of(&seal));
        Self::new(place, accepted, &seal, opening).read_for(seal)
    }

    fn new(
        place: impl Into<Arc<Place>>,
        accepted: Accepted,
        seal: &OpenedSeal,
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

    /// What is open, or becomes so as long as `patience`, unless there is something else on this machine.
    fn opened_within(self: &Arc<Self>, patience: Duration) -> io::Result<Arc<Files>> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal.into());
        }
        let lazy = self.clone();
        let patience = self.place.patience_to_open(patience);
        self.opening.within(patience, move || lazy.find())
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
    fn read(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Option<Duration>,
    ) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size)?;
        let len = buf.len();
        for _ in 0..2 {
            let files = self.lazy.opened_within(patience.unwrap_or(LONGEST));
            let files = files.map_err(ReadError::io(offset, len))?;
            let source = (self.choose)(&files);
            let read = match patience {
                Some(patience) => source.read_within(buf, offset, patience),
                None => source.read_exact_at(buf, offset),
            };
            match read {
                // The same content may be stored there in another way now.
                Err(ReadError::Io { source, .. }) if is_replaced(&source) => {
                    self.lazy.opening.forget(&files);
                }
                read => return read,
            }
        }
        Err(ReadError::io(offset, len)(replaced()))
    }

    fn if_open(&self) -> Option<Arc<dyn ReadAt>> {
        self.lazy.opening.if_open().as_deref().map(self.choose)
    }
}

impl ReadAt for LazyPart {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.read(buf, offset, None)
    }

    fn read_within(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<(), ReadError> {
        self.read(buf, offset, Some(patience))
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

#[cfg(all(test, feature = "remote"))]
mod tests {
    use std::fs;

    use verimount_testkit::HttpServer;
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
        let read = seal.data().read_within(&mut buf, 0, Duration::ZERO);
        read.unwrap();
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
}
