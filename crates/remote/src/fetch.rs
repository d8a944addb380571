//! Fetching with retries.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    ops::Range,
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Error,
    answer::Version,
    client::{Body, Client, Failure},
    granules::GRANULE,
    limits::Limits,
};

/// Ends pauses between attempts when the file is closed.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    is_closed: Mutex<bool>,
    said: Condvar,
}

impl Closing {
    pub(crate) fn close(&self) {
        *self
            .is_closed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.said.notify_all();
    }

    /// Waits, unless the file is closed before.
    fn pause(&self, pause: Duration) -> Result<(), Error> {
        let is_closed = self
            .is_closed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .said
            .wait_timeout_while(is_closed, pause, |closed| !*closed);
        match *waited.unwrap_or_else(PoisonError::into_inner).0 {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }
}

/// When to try again, and when to give up.
pub(crate) struct Attempts<'a> {
    limits: &'a Limits,
    closing: &'a Closing,
    patience: Duration,
    since: Instant,
    next_pause: Duration,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(limits: &'a Limits, closing: &'a Closing, patience: Duration) -> Self {
        Self {
            limits,
            closing,
            patience,
            since: Instant::now(),
            next_pause: limits.first_pause,
        }
    }

    /// Something arrived: the deadline and the pauses begin again.
    pub(crate) fn progress(&mut self) {
        self.since = Instant::now();
        self.next_pause = self.limits.first_pause;
    }

    fn is_late(&self) -> bool {
        self.since.elapsed() >= self.patience
    }

    /// Pauses before the next attempt; fails if there should be none.
    pub(crate) fn again(&mut self, failure: Failure) -> Result<(), Error> {
        if !failure.error.may_pass() {
            return Err(failure.error);
        }
        let pause = jittered(self.next_pause).max(failure.retry_after.unwrap_or_default());
        let left = self.patience.saturating_sub(self.since.elapsed());
        if pause >= left {
            return Err(Error::GaveUp {
                after: self.since.elapsed(),
                last: Box::new(failure.error),
            });
        }
        self.next_pause = (self.next_pause * 2).min(self.limits.longest_pause);
        self.closing.pause(pause)
    }
}

/// A random part of a pause, so that many clients do not return at once.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) as u32;
    pause.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Does what opens something, until it succeeds, as long as failures may pass. That no connection can be
/// made is not retried: the address may be wrong.
pub(crate) fn opening<T>(
    limits: &Limits,
    closing: &Closing,
    mut once: impl FnMut(&Attempts<'_>) -> Result<T, Failure>,
) -> Result<T, Error> {
    let mut attempts = Attempts::new(limits, closing, limits.open);
    loop {
        let failure = match once(&attempts) {
            Ok(opened) => return Ok(opened),
            Err(failure) => failure,
        };
        match failure.error {
            Error::Unreachable(_) => return Err(failure.error),
            _ => attempts.again(failure)?,
        }
    }
}

/// Opens the file: its version, and its first granule.
pub(crate) fn first(
    client: &Client,
    limits: &Limits,
    closing: &Closing,
) -> Result<(Version, Vec<u8>), Error> {
    opening(limits, closing, |attempts| first_once(client, attempts))
}

fn first_once(client: &Client, attempts: &Attempts<'_>) -> Result<(Version, Vec<u8>), Failure> {
    let (version, mut body) = client.first(GRANULE)?;
    let mut bytes = Vec::new();
    let len = GRANULE.min(version.size) as usize;
    if len > 0 {
        fill(&mut body, &mut bytes, len, attempts)?;
        body.finish();
    }
    Ok((version, bytes))
}

/// Fetches bytes that begin at a granule's start, and hands out each granule when it is complete. What
/// arrived before a transfer broke off is not asked for again.
pub(crate) fn granules(
    client: &Client,
    version: &Version,
    limits: &Limits,
    closing: &Closing,
    bytes: Range<u64>,
    mut arrived: impl FnMut(Vec<u8>),
) -> Result<(), Error> {
    let mut attempts = Attempts::new(limits, closing, limits.read);
    let mut start = bytes.start;
    let mut granule = Vec::new();
    loop {
        let missing = start + granule.len() as u64..bytes.end;
        if missing.is_empty() {
            return Ok(());
        }
        let fetched = client.range(&missing, version).and_then(|mut body| {
            while start < bytes.end {
                let len = GRANULE.min(bytes.end - start) as usize;
                fill(&mut body, &mut granule, len, &attempts)?;
                start += len as u64;
                arrived(std::mem::take(&mut granule));
                attempts.progress();
            }
            body.finish();
            Ok(())
        });
        if let Err(failure) = fetched {
            attempts.again(failure)?;
        }
    }
}

/// Extends `bytes` to this length.
fn fill(
    body: &mut Body,
    bytes: &mut Vec<u8>,
    len: usize,
    attempts: &Attempts<'_>,
) -> Result<(), Error> {
    let mut filled = bytes.len();
    bytes.resize(len, 0);
    let end = loop {
        if filled == len {
            break Ok(());
        }
        if attempts.is_late() {
            break Err(Error::Broken("it is too slow".to_owned()));
        }
        match body.read(&mut bytes[filled..]) {
            Ok(read) => filled += read,
            Err(error) => break Err(error),
        }
    };
    bytes.truncate(filled);
    end
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}
