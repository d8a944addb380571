//! Files that are opened when something of them is first read, and again after they were replaced.

use std::{
    io,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use verimount_source::{Ask, Fetch, Given, Hint, ReadError, check_range, stream_in_pieces};
use verimount_sync::Mutex;

use crate::{
    Error,
    far::{is_replaced, replaced},
    opening::{Failure, LONGEST, Opening},
};

/// How long nothing is looked for where something else was found: another release anywhere, or anything on this machine, as
/// searching it takes many reads.
const REFUSAL: Duration = Duration::from_secs(60);

/// Files that belong together, and are opened together.
pub(crate) struct AtNeed {
    open: Box<Open>,
    /// Whether they are on another machine, perhaps. Opening others is waited for, as their disk may have to start.
    is_slow: bool,
    opening: Arc<Opening<Files>>,
    /// Why they are left alone, and since when.
    refused: Mutex<Option<(Instant, Failure)>>,
}

/// Opens the files, for a reader of this range of the first one.
type Open = dyn Fn(&Range<u64>) -> Result<Files, NotOpened> + Send + Sync;

/// The files, in the order of their numbers.
pub(crate) type Files = Vec<Arc<dyn Fetch>>;

/// Why files are not opened.
#[derive(Debug)]
pub(crate) struct NotOpened {
    pub(crate) reason: io::Error,
    /// Whether trying again soon gives nothing else.
    pub(crate) is_lasting: bool,
}

impl AtNeed {
    /// Files that are `opening`, and are opened by `open` when something of them is read and they are not, or not any longer.
    pub(crate) fn new(
        is_slow: bool,
        opening: Arc<Opening<Files>>,
        open: impl Fn(&Range<u64>) -> Result<Files, NotOpened> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            open: Box::new(open),
            is_slow,
            opening,
            refused: Mutex::default(),
        })
    }

    /// The file with this number, which has this size in bytes.
    pub(crate) fn file(self: &Arc<Self>, number: usize, size: u64) -> Arc<dyn Fetch> {
        Arc::new(File {
            files: self.clone(),
            number,
            size,
        })
    }

    /// What is open, or becomes so as long as `patience`, unless it is left alone. `range` of the first file is wanted.
    fn opened_within(
        self: &Arc<Self>,
        patience: Option<Duration>,
        range: Range<u64>,
    ) -> io::Result<Arc<Files>> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal.into());
        }
        let patience = patience.filter(|_| self.is_slow).unwrap_or(LONGEST);
        let files = self.clone();
        self.opening
            .within(patience, move || files.open_now(&range))
    }

    fn open_now(&self, range: &Range<u64>) -> io::Result<Files> {
        (self.open)(range).map_err(|NotOpened { reason, is_lasting }| {
            let failure = Failure::from(reason);
            if is_lasting {
                *self.refused.lock() = Some((Instant::now(), failure.clone()));
            }
            failure.into()
        })
    }

    fn refusal(&self) -> Option<Failure> {
        let refused = self.refused.lock();
        let refused = refused.as_ref();
        let recent = refused.filter(|(since, _)| since.elapsed() < REFUSAL);
        recent.map(|(_, failure)| failure.clone())
    }

    /// The error of a read for which they could not be opened. A place on another machine that has something else is as bad as
    /// one that gives wrong bytes.
    fn failed(&self, offset: u64, len: usize, error: io::Error) -> ReadError {
        let failure = error.get_ref();
        let failure = failure.and_then(|inner| inner.downcast_ref::<Failure>());
        let inner = failure.and_then(Failure::inner::<Error>);
        let is_wrong = inner.is_some_and(|error| error.kind().is_about_data());
        if is_wrong && self.is_slow {
            ReadError::Rejected(Box::new(error))
        } else {
            ReadError::io(offset, len)(error)
        }
    }
}

/// One of the files.
struct File {
    files: Arc<AtNeed>,
    number: usize,
    size: u64,
}

impl File {
    fn if_open(&self) -> Option<Arc<dyn Fetch>> {
        let files = self.files.opening.if_open();
        files.map(|files| files[self.number].clone())
    }
}

impl Fetch for File {
    fn length(&self) -> u64 {
        self.size
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        check_range(offset, buf.len(), self.size)?;
        let len = buf.len();
        let wanted = match self.number {
            0 => offset..offset + len as u64,
            _ => 0..0,
        };
        for _ in 0..2 {
            let files = self.files.opened_within(ask.patience, wanted.clone());
            let files = files.map_err(|error| self.files.failed(offset, len, error))?;
            match files[self.number].fetch(buf, offset, ask) {
                // The content may be stored there in another way now.
                Err(ReadError::Io { source, .. }) if is_replaced(&source) => {
                    self.files.opening.forget(&files);
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
        if let Some(file) = self.if_open() {
            file.hint(range, hint);
        }
    }

    fn distrust(&self, range: Range<u64>, given: &Given) -> u32 {
        self.if_open().map_or(0, |file| file.distrust(range, given))
    }

    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()> {
        match self.if_open() {
            Some(file) => file.mend(right, offset),
            // It may be missing for now, which says nothing about whether it can be written.
            None => Err(io::Error::other("it is not open")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn what_will_not_be_there_soon_is_left_alone_for_a_while() {
        for is_lasting in [false, true] {
            let tried = Arc::new(AtomicUsize::new(0));
            let counter = tried.clone();
            let files = AtNeed::new(false, Opening::closed(), move |_| {
                counter.fetch_add(1, SeqCst);
                Err(NotOpened {
                    reason: io::ErrorKind::NotFound.into(),
                    is_lasting,
                })
            });
            let fails = || {
                let fetched = files.file(0, 10).fetch(&mut [0; 10], 0, Ask::default());
                assert!(matches!(fetched, Err(ReadError::Io { .. })));
            };
            (0..3).for_each(|_| fails());
            assert_eq!(tried.load(SeqCst), if is_lasting { 1 } else { 3 });
            let refused = files.refused.lock().take();
            assert_eq!(refused.is_some(), is_lasting);
            if let Some((since, failure)) = refused {
                let long_ago = since.checked_sub(REFUSAL).expect("the machine runs");
                *files.refused.lock() = Some((long_ago, failure));
            }
            fails();
            assert_eq!(tried.load(SeqCst), if is_lasting { 2 } else { 4 });
        }
    }
}
