//! One place of the content: whether it is worth asking, and what it did so far.

use std::{
    fmt::Display,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use verimount_source::{Ask, Fetch, ReadError};
use verimount_sync::Mutex;

/// How long a far place may take for the next bytes until another one is asked, at first.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a place rests that has failed for the first time. Each further time it is twice as long.
const FIRST_REST: Duration = Duration::from_millis(500);

/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// How often a place that has rested is looked at, until what it was asked for has come.
const LOOK: Duration = Duration::from_millis(100);

/// Where a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceKind {
    /// On this machine: what fails is a range, and is known at once.
    Near,
    /// On another one: what fails is the place, and may take long.
    Far,
}

/// A place of content.
pub(crate) struct Place {
    name: String,
    kind: PlaceKind,
    /// The most that its bytes are waited for while there are others to ask.
    most_patience: Duration,
    health: Mutex<Health>,
    asked: AtomicU64,
    failed: AtomicU64,
    wrong: AtomicU64,
    bytes_repaired: AtomicU64,
}

struct Health {
    patience: Duration,
    /// `None` while it is well.
    rest: Option<Rest>,
}

/// A time in which a place is not asked, if there is another one.
struct Rest {
    since: Instant,
    until: Instant,
    length: Duration,
    /// Whether it may only be slow.
    is_late: bool,
    /// Whether it was asked again since it began.
    is_probed: bool,
    /// What it is asked for to see whether it is well again; if nothing is said, the beginning of whatever is to be read.
    probe: Option<Probe>,
}

/// A byte of a copy.
type Probe = (Arc<dyn Fetch>, u64);

impl Rest {
    /// One that begins now.
    fn of(length: Duration) -> Self {
        let since = Instant::now();
        Self {
            since,
            until: since + length,
            length,
            is_late: false,
            is_probed: false,
            probe: None,
        }
    }
}

/// What a place did so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct PlaceStats {
    /// What it is called. In a status, a long name is shortened to an ellipsis and its end.
    pub place: String,
    /// Reads that it was asked for.
    pub asked: u64,
    /// Reads that failed, or were late.
    pub failed: u64,
    /// Ranges that whoever verifies them found wrong.
    pub wrong: u64,
    /// Bytes that were replaced there by right ones.
    pub bytes_repaired: u64,
    /// Whether it is not asked now, as it has failed.
    pub rests: bool,
}

impl Place {
    /// `timeout` is how long a read waits if there is no other place.
    pub(crate) fn new(name: String, kind: PlaceKind, timeout: Duration) -> Self {
        let most_patience = timeout / 4;
        Self {
            name,
            kind,
            most_patience,
            health: Mutex::new(Health {
                patience: PATIENCE.min(most_patience),
                rest: None,
            }),
            asked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            bytes_repaired: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_near(&self) -> bool {
        self.kind == PlaceKind::Near
    }

    pub(crate) fn stats(&self) -> PlaceStats {
        PlaceStats {
            place: self.name.clone(),
            asked: self.asked.load(Relaxed),
            failed: self.failed.load(Relaxed),
            wrong: self.wrong.load(Relaxed),
            bytes_repaired: self.bytes_repaired.load(Relaxed),
            rests: !self.is_well(),
        }
    }

    pub(crate) fn is_well(&self) -> bool {
        self.health.lock().rest.is_none()
    }

    /// Whether it is well, or proves to be after a rest: it is then asked for a byte that nobody waits for.
    pub(crate) fn is_well_again(&self, copy: &Arc<dyn Fetch>) -> bool {
        let Some((copy, offset)) = self.probe(copy) else {
            return self.is_well();
        };
        // What others gave proves nothing.
        let ask = Ask::within(Some(Duration::ZERO)).past_caches();
        match copy.fetch(&mut [0], offset, ask) {
            Ok(_) => self.has_answered(),
            // It is looked at again soon.
            Err(error) if is_late(&error) => {}
            Err(error) => self.has_failed((copy, offset), &error),
        }
        self.is_well()
    }

    /// What to ask for, if it has rested and nobody is looking at it.
    fn probe(&self, copy: &Arc<dyn Fetch>) -> Option<Probe> {
        let mut health = self.health.lock();
        let rest = health.rest.as_mut()?;
        let now = Instant::now();
        if now < rest.until {
            return None;
        }
        rest.until = now + LOOK;
        rest.is_probed = true;
        Some(rest.probe.clone().unwrap_or_else(|| (copy.clone(), 0)))
    }

    /// Reads from it, past what a cache has of it or not.
    ///
    /// # Errors
    /// Those of the source, which count against the place.
    pub(crate) fn read(
        &self,
        copy: &Arc<dyn Fetch>,
        buf: &mut [u8],
        offset: u64,
        past_caches: bool,
    ) -> Result<(), ReadError> {
        self.asked.fetch_add(1, Relaxed);
        let patience = self.health.lock().patience;
        let mut ask = Ask::within(Some(patience));
        ask.past_caches = past_caches;
        // It has no places of its own that would have to be told apart.
        let read = copy.fetch(buf, offset, ask).map(drop);
        match &read {
            Ok(()) => self.has_answered(),
            Err(error) => {
                self.failed.fetch_add(1, Relaxed);
                // What came before it failed would prove nothing later.
                let last = (offset + buf.len() as u64).saturating_sub(1);
                self.has_failed((copy.clone(), last), error);
            }
        }
        read
    }

    fn has_answered(&self) {
        let mut health = self.health.lock();
        let Some(rest) = health.rest.take() else {
            return;
        };
        if rest.is_late && rest.since.elapsed() < health.patience * 4 {
            // It was not gone, but is slow.
            health.patience = (health.patience * 2).min(self.most_patience);
        }
        drop(health);
        tracing::info!(place = %self.name, "it can be read again");
    }

    fn has_failed(&self, probe: Probe, error: &ReadError) {
        if self.is_near() {
            tracing::warn!(place = %self.name, %error, "a copy cannot be read there: another place is asked");
            return;
        }
        let mut health = self.health.lock();
        let mut rest = match &health.rest {
            None => Rest::of(FIRST_REST),
            Some(rest) if rest.is_probed => Rest {
                since: rest.since,
                ..Rest::of((rest.length * 2).min(LONGEST_REST))
            },
            // Others have failed at the same time.
            Some(_) => return,
        };
        (rest.is_late, rest.probe) = (is_late(error), Some(probe));
        let is_new = health.rest.replace(rest).is_none();
        drop(health);
        if is_new {
            tracing::warn!(place = %self.name, %error, "a copy cannot be read there: other places are asked");
        }
    }

    pub(crate) fn could_not_be_opened(&self, reason: &dyn Display) {
        self.failed.fetch_add(1, Relaxed);
        tracing::warn!(place = %self.name, %reason, "a copy cannot be opened there: other places are asked");
        if !self.is_near() {
            self.health.lock().rest = Some(Rest::of(FIRST_REST));
        }
    }

    /// It is wrong in so many ranges that it is left alone for some time.
    pub(crate) fn is_wrong_as_a_whole(&self) {
        tracing::warn!(place = %self.name, "the copy there is wrong in too many ranges: other places are asked");
        self.health.lock().rest = Some(Rest::of(LONGEST_REST));
    }

    /// It gave wrong bytes.
    pub(crate) fn was_wrong(&self, what: &str, offset: u64, len: u64) {
        self.wrong.fetch_add(1, Relaxed);
        tracing::warn!(
            place = %self.name, what, offset, len,
            "a copy does not match there: another place is asked"
        );
    }

    /// Wrong bytes there were to be replaced, if there were any.
    pub(crate) fn was_mended(&self, what: &str, offset: u64, len: u64, mended: &io::Result<bool>) {
        match mended {
            Ok(false) => {}
            Ok(true) => {
                self.bytes_repaired.fetch_add(len, Relaxed);
                tracing::warn!(place = %self.name, what, offset, len, "a copy was repaired there");
            }
            Err(error) => {
                tracing::warn!(
                    place = %self.name, what, offset, len, %error,
                    "a copy cannot be repaired there"
                );
            }
        }
    }
}

fn is_late(error: &ReadError) -> bool {
    matches!(error, ReadError::Io { source, .. } if source.kind() == io::ErrorKind::TimedOut)
}
