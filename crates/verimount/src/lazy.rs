use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use verimount_remote::Error as RemoteError;
use verimount_source::{ReadAt, ReadError, check_range};

use crate::{Access, Error, Location};

/// Content that is opened when something of it is first read.
pub(crate) struct Lazy {
    location: Location,
    access: Access,
    size: u64,
    /// The attempt to open it that has succeeded, is under way or comes next.
    attempt: Mutex<Arc<Attempt>>,
}

/// An attempt to open content. All readers that need it wait for the same one, and share its failure: one after the
/// other, each would wait as long as the first.
type Attempt = OnceLock<Result<Arc<dyn ReadAt>, Failure>>;

/// Why content could not be opened.
#[derive(Debug, Clone)]
struct Failure(Arc<io::Error>);

impl Lazy {
    /// The content at `location`, which is expected to have `size` bytes.
    pub(crate) fn new(location: Location, access: Access, size: u64) -> Self {
        Self {
            location,
            access,
            size,
            attempt: Mutex::default(),
        }
    }

    /// A failure is not kept: the next read tries again.
    fn opened(&self) -> io::Result<Arc<dyn ReadAt>> {
        let attempt = self.attempt().clone();
        let opened = attempt.get_or_init(|| self.open().map_err(Failure::from));
        opened.clone().map_err(|failure| {
            let mut current = self.attempt();
            if Arc::ptr_eq(&current, &attempt) {
                *current = Arc::default();
            }
            failure.into()
        })
    }

    fn open(&self) -> io::Result<Arc<dyn ReadAt>> {
        let (source, _) = self
            .location
            .open(&self.access)
            .map_err(|error| match error {
                Error::Io { source, .. } => source,
                other => io::Error::other(other),
            })?;
        match source.size() == self.size {
            true => Ok(source),
            false => Err(RemoteError::Replaced.into()),
        }
    }

    /// What is open already, without waiting.
    fn if_open(&self) -> Option<Arc<dyn ReadAt>> {
        let attempt = self.attempt().clone();
        attempt.get()?.clone().ok()
    }

    fn attempt(&self) -> MutexGuard<'_, Arc<Attempt>> {
        // It is only ever replaced as a whole.
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadAt for Lazy {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let len = buf.len();
        check_range(offset, len, self.size)?;
        let source = self.opened().map_err(|source| ReadError::Io {
            offset,
            len,
            source,
        })?;
        source.read_exact_at(buf, offset)
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

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use verimount_testkit::HttpServer;

    use super::*;

    fn lazy(server: &HttpServer) -> Lazy {
        let location = Location::of_argument(server.url("/file").as_ref()).unwrap();
        Lazy::new(location, Access::default(), 100)
    }

    fn fails(lazy: &Lazy) {
        assert!(lazy.read_exact_at(&mut [0; 10], 0).is_err());
    }

    #[test]
    fn a_failure_is_not_kept() {
        let server = HttpServer::start([7; 100], |number, _, right| match number {
            0..3 => right.only_status(404),
            _ => right,
        });
        let lazy = lazy(&server);
        (0..3).for_each(|_| fails(&lazy));
        let mut buf = [0; 10];
        lazy.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(buf, [7; 10]);
    }

    #[test]
    fn those_who_wait_share_an_attempt() {
        const READERS: usize = 8;
        let all_wait = Arc::new(Barrier::new(2));
        let in_script = all_wait.clone();
        let server = HttpServer::start([7; 100], move |_, _, right| {
            in_script.wait();
            right.only_status(404)
        });
        let lazy = lazy(&server);
        let attempt = lazy.attempt().clone();
        thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| fails(&lazy));
            }
            // Besides the readers, there are this one and the next.
            while Arc::strong_count(&attempt) < READERS + 2 {
                thread::yield_now();
            }
            all_wait.wait();
        });
        assert_eq!(server.requests().len(), 1);
    }
}
