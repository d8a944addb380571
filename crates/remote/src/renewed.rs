//! What is read from files that may be replaced while it is used: credentials and certificates expire.

use std::{fmt, io, str::FromStr, sync::Arc};

use verimount_sync::Mutex;

/// Reads the text of a file that may have been replaced.
#[derive(Clone, Default)]
pub(crate) struct Again(Option<Arc<ReadText>>);

type ReadText = dyn Fn() -> io::Result<String> + Send + Sync;

impl Again {
    pub(crate) fn new(read: impl Fn() -> io::Result<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// What the file says now; `None` if there is none, or if it cannot be used, which is logged.
    pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(&self) -> Option<T> {
        let text = self.0.as_ref()?().map_err(|error| error.to_string());
        let parsed = text.and_then(|text| text.parse().map_err(|error: T::Err| error.to_string()));
        parsed
            .inspect_err(|reason| {
                tracing::warn!(reason, "what a server has refused cannot be read again");
            })
            .ok()
    }
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Again").field(&self.0.is_some()).finish()
    }
}

/// What is used of such a file.
pub(crate) struct Renewed<T> {
    now: Mutex<Arc<T>>,
    again: Box<dyn Fn() -> Option<T> + Send + Sync>,
    /// Held while it is read: others who were refused wait rather than read it as well.
    reading: Mutex<()>,
}

impl<T: PartialEq> Renewed<T> {
    pub(crate) fn new(first: T, again: impl Fn() -> Option<T> + Send + Sync + 'static) -> Self {
        Self {
            now: Mutex::new(Arc::new(first)),
            again: Box::new(again),
            reading: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Arc<T> {
        self.now.lock().clone()
    }

    /// What there is by now instead of what was `used` and refused, if that is something else.
    pub(crate) fn instead_of(&self, used: &Arc<T>) -> Option<Arc<T>> {
        let _reading = self.reading.lock();
        if Arc::ptr_eq(&self.now(), used) {
            let read = (self.again)().filter(|read| *read != **used)?;
            *self.now.lock() = Arc::new(read);
        }
        Some(self.now())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn it_is_read_again_once_for_all_that_were_refused() {
        let file = Arc::new(AtomicU32::new(1));
        let reads = Arc::new(AtomicU32::new(0));
        let again = {
            let (file, reads) = (file.clone(), reads.clone());
            move || {
                reads.fetch_add(1, Relaxed);
                Some(file.load(Relaxed)).filter(|number| *number > 0)
            }
        };
        let renewed = Renewed::new(1, again);
        let first = renewed.now();
        assert_eq!(renewed.instead_of(&first), None);
        file.store(0, Relaxed);
        assert_eq!(renewed.instead_of(&first), None);
        file.store(2, Relaxed);
        let seen = [(); 2].map(|()| renewed.instead_of(&first).as_deref().copied());
        assert_eq!((seen, reads.load(Relaxed)), ([Some(2); 2], 3));
    }

    #[test]
    fn what_cannot_be_used_is_not() {
        let texts = ["1", "nonsense"].map(|text| Again::new(move || Ok(text.to_owned())));
        assert_eq!(texts.map(|text| text.parsed::<u32>()), [Some(1), None]);
        let missing = Again::new(|| Err(io::ErrorKind::NotFound.into()));
        assert_eq!(missing.parsed::<u32>(), None);
        assert_eq!(Again::default().parsed::<u32>(), None);
    }
}
