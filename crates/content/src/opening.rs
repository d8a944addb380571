//! What is opened when it is first needed, by one thread for all who need it.

use std::{
    fmt, io,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use verimount_sync::{Condvar, Mutex};

/// How long they wait who have no less patience: longer than opening may take.
pub(crate) const LONGEST: Duration = Duration::from_secs(1 << 20);

/// Something that is open, is being opened, or can be.
pub(crate) struct Opening<T> {
    /// The last attempt, if there was one.
    last: Mutex<Option<Arc<Attempt<T>>>>,
    an_attempt_ended: Condvar,
}

/// An attempt to open it. All who need it at the time wait for the same one, and share its failure: one after the other, each
/// would wait as long as the first.
type Attempt<T> = OnceLock<Result<Arc<T>, Failure>>;

/// Why it could not be opened.
#[derive(Debug, Clone)]
pub(crate) struct Failure(Arc<io::Error>);

impl<T: Send + Sync + 'static> Opening<T> {
    /// What must still be opened.
    pub(crate) fn closed() -> Arc<Self> {
        Self::new(None)
    }

    /// What is open already.
    pub(crate) fn open(opened: T) -> Arc<Self> {
        Self::new(Some(Arc::new(Ok(Arc::new(opened)).into())))
    }

    fn new(last: Option<Arc<Attempt<T>>>) -> Arc<Self> {
        Arc::new(Self {
            last: Mutex::new(last),
            an_attempt_ended: Condvar::new(),
        })
    }

    /// What is open, or becomes so as long as `patience`. Opening goes on after that. A failure is not kept: who comes next tries
    /// again.
    pub(crate) fn within(
        self: &Arc<Self>,
        patience: Duration,
        open: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<Arc<T>> {
        let mut last = self.last.lock();
        let attempt = match &*last {
            Some(attempt) if !matches!(attempt.get(), Some(Err(_))) => attempt.clone(),
            _ => last.insert(self.begin(open)?).clone(),
        };
        let is_under_way = |_: &mut _| attempt.get().is_none();
        let waited = self
            .an_attempt_ended
            .wait_timeout_while(last, patience, is_under_way);
        drop(waited);
        match attempt.get() {
            Some(Ok(opened)) => Ok(opened.clone()),
            Some(Err(failure)) => Err(failure.clone().into()),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn begin(
        self: &Arc<Self>,
        open: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<Arc<Attempt<T>>> {
        let attempt = Arc::<Attempt<T>>::default();
        let under_way = UnderWay(self.clone(), attempt.clone());
        let thread = thread::Builder::new().name("open".to_owned());
        thread.spawn(move || {
            let UnderWay(_, attempt) = &under_way;
            attempt.get_or_init(|| open().map(Arc::new).map_err(Failure::from));
        })?;
        Ok(attempt)
    }

    /// What is open, without waiting.
    pub(crate) fn if_open(&self) -> Option<Arc<T>> {
        let last = self.last.lock();
        last.as_ref()?.get()?.as_ref().ok().cloned()
    }

    /// Who comes next opens it again, if nobody has done so already.
    pub(crate) fn forget(&self, opened: &Arc<T>) {
        let mut last = self.last.lock();
        let current = last.as_ref().and_then(|attempt| attempt.get());
        if current.is_some_and(|current| matches!(current, Ok(it) if Arc::ptr_eq(it, opened))) {
            *last = None;
        }
    }
}

/// An attempt that ends, even in a panic, with those who wait for it being told.
struct UnderWay<T>(Arc<Opening<T>>, Arc<Attempt<T>>);

impl<T> Drop for UnderWay<T> {
    fn drop(&mut self) {
        let Self(opening, attempt) = self;
        attempt.get_or_init(|| Err(io::Error::other("opening it has panicked").into()));
        // Who has seen that it had not ended waits by now.
        drop(opening.last.lock());
        opening.an_attempt_ended.notify_all();
    }
}

impl Failure {
    /// The error inside the system's, if it is one of this type.
    pub(crate) fn inner<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.get_ref()?.downcast_ref()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let same = error.downcast();
        same.unwrap_or_else(|error| Self(Arc::new(error)))
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
    use std::sync::mpsc::channel;

    use verimount_testkit::eventually;

    use super::*;

    fn cannot() -> io::Result<u8> {
        Err(io::ErrorKind::NotFound.into())
    }

    #[test]
    fn a_failure_is_not_kept_and_what_is_open_is() {
        let opening = Opening::closed();
        let failed = opening.within(LONGEST, cannot).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
        assert!(opening.if_open().is_none());
        assert_eq!(*opening.within(LONGEST, || Ok(1)).unwrap(), 1);
        assert_eq!(*opening.within(LONGEST, cannot).unwrap(), 1);
    }

    #[test]
    fn what_is_forgotten_is_opened_again_once() {
        let opening = Opening::open(1);
        let first = opening.if_open().unwrap();
        opening.forget(&first);
        assert!(opening.if_open().is_none());
        assert_eq!(*opening.within(LONGEST, || Ok(2)).unwrap(), 2);
        opening.forget(&first);
        assert_eq!(opening.if_open().as_deref(), Some(&2));
    }

    #[test]
    fn opening_goes_on_when_patience_ends() {
        let opening = Opening::closed();
        let (go_on, told) = channel();
        let open = move || {
            // Told, or the test has failed.
            let _ = told.recv();
            Ok(1)
        };
        let late = opening.within(Duration::ZERO, open).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        go_on.send(()).unwrap();
        assert_eq!(*opening.within(LONGEST, cannot).unwrap(), 1);
    }

    #[test]
    fn a_panic_is_a_failure() {
        let opening = Opening::<u8>::closed();
        let failed = opening.within(LONGEST, || panic!("this is wanted"));
        assert_eq!(failed.unwrap_err().to_string(), "opening it has panicked");
        assert_eq!(*opening.within(LONGEST, || Ok(1)).unwrap(), 1);
    }

    #[test]
    fn those_who_wait_share_an_attempt() {
        const WAITING: usize = 8;
        let opening = &Opening::closed();
        let (go_on, told) = channel::<()>();
        let open = move || {
            // Told, or the test has failed.
            let _ = told.recv();
            cannot()
        };
        opening.within(Duration::ZERO, open).unwrap_err();
        let attempt = opening.last.lock().clone().expect("it has begun");
        thread::scope(|scope| {
            for _ in 0..WAITING {
                scope.spawn(|| opening.within(LONGEST, || Ok(1)).unwrap_err());
            }
            // Besides them, the thread that opens it, this one and `opening` have it.
            eventually("all wait", || Arc::strong_count(&attempt) == WAITING + 3);
            drop(go_on);
        });
    }
}
