//! Fetching with retries.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    ops::{ControlFlow, Range},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use verimount_source::GRANULE;

use crate::{
    Error, Session,
    answer::Version,
    client::{Body, Client, Failure, Span},
    closing::Closing,
};

/// When to try again, and when to give up.
pub(crate) struct Attempts<'a> {
    session: &'a Session,
    closing: &'a Closing,
    patience: Duration,
    since: Instant,
    next_pause: Duration,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(session: &'a Session, closing: &'a Closing, patience: Duration) -> Self {
        Self {
            session,
            closing,
            patience,
            since: Instant::now(),
            next_pause: session.limits().first_pause,
        }
    }

    /// Something arrived: the deadline and the pauses begin again.
    pub(crate) fn progress(&mut self) {
        self.since = Instant::now();
        self.next_pause = self.session.limits().first_pause;
    }

    fn is_late(&self) -> bool {
        self.since.elapsed() >= self.patience
    }

    /// Pauses before the next attempt; fails if there should be none.
    pub(crate) fn again(&mut self, failure: Failure) -> Result<(), Error> {
        let Failure { error, retry_after } = failure;
        // That nothing works after closing is no failure.
        self.closing.check()?;
        self.session.failed(&error);
        if !error.may_pass() {
            return Err(error);
        }
        let left = self.patience.saturating_sub(self.since.elapsed());
        let own = jittered(self.next_pause).max(retry_after.unwrap_or_default());
        let allowed = if own < left {
            self.session.budget().spend(left)
        } else {
            None
        };
        let Some(allowed) = allowed else {
            return Err(Error::GaveUp {
                after: self.since.elapsed(),
                last: Box::new(error),
            });
        };
        let pause = own.max(allowed);
        self.session.counters().retried(&error);
        self.next_pause = (self.next_pause * 2).min(self.session.limits().longest_pause);
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
    session: &Session,
    mut once: impl FnMut(&Attempts<'_>) -> Result<T, Failure>,
) -> Result<T, Error> {
    let mut attempts = Attempts::new(session, session.closing(), session.limits().open);
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

/// Granules, each with its number, of a version of the file.
pub(crate) type Arrived = (Version, Vec<(u64, Vec<u8>)>);

/// Opens the file: its version, and its first granule if it has any.
pub(crate) fn first(client: &Client) -> Result<Arrived, Error> {
    let span = Span::Range(0..GRANULE);
    opening(client.session(), |attempts| {
        arrived(client, &span, attempts)
    })
}

/// The version of a file that is not known yet, and the whole granules in a span.
pub(crate) fn arrived(
    client: &Client,
    span: &Span,
    attempts: &Attempts<'_>,
) -> Result<Arrived, Failure> {
    let (version, part, mut body) = client.first(span)?;
    let whole = part.start.next_multiple_of(GRANULE).min(part.end);
    bytes(&mut body, whole - part.start, attempts)?;
    let starts = (whole..part.end).step_by(GRANULE as usize);
    let granules = starts.map(|start| {
        let len = GRANULE.min(part.end - start);
        Ok((start / GRANULE, bytes(&mut body, len, attempts)?))
    });
    let granules = granules.collect::<Result<Vec<_>, Failure>>()?;
    if !granules.is_empty() {
        body.finish();
    }
    Ok((version, granules))
}

/// How often a file is fetched whole that breaks off each time.
const WHOLE: usize = 5;

/// What is done with a piece of a file: it gets its offset and the size of the file, and says whether to go on.
pub type TakePiece<'a> = dyn FnMut(&[u8], u64, u64) -> ControlFlow<()> + 'a;

/// Fetches all of a file from a server that sends no parts: what breaks off begins again. Returns the size.
pub(crate) fn whole(client: &Client, take: &mut TakePiece<'_>) -> Result<u64, Error> {
    let session = client.session();
    let mut attempts = Attempts::new(session, session.closing(), session.limits().read);
    let mut left = WHOLE;
    loop {
        let fetched = client.whole().and_then(|(size, mut body)| {
            for start in (0..size).step_by(GRANULE as usize) {
                let piece = bytes(&mut body, GRANULE.min(size - start), &attempts)?;
                if take(&piece, start, size).is_break() {
                    return Err(Error::Closed.into());
                }
                attempts.progress();
            }
            body.finish();
            Ok(size)
        });
        left -= 1;
        match fetched {
            Err(failure) if left > 0 => attempts.again(failure)?,
            fetched => return fetched.map_err(|failure| failure.error),
        }
    }
}

/// The next `len` bytes of an answer.
fn bytes(body: &mut Body, len: u64, attempts: &Attempts<'_>) -> Result<Vec<u8>, Error> {
    let mut piece = Partial::new(Vec::new(), len as usize);
    piece.fill(body, attempts)?;
    Ok(piece.bytes)
}

/// Where pieces arrive, one after the other.
pub(crate) trait Landing {
    /// A buffer for the next piece, with any content and length.
    fn buffer(&mut self) -> Vec<u8>;

    /// The next piece is complete.
    fn landed(&mut self, bytes: Vec<u8>);

    /// An attempt has failed. Perhaps there is another one.
    fn failed(&mut self, error: &Error);
}

/// Fetches bytes in pieces that end with granules. What arrived before a transfer broke off is not asked for
/// again.
pub(crate) fn pieces(
    client: &Client,
    version: &Version,
    closing: &Closing,
    bytes: Range<u64>,
    landing: &mut impl Landing,
) -> Result<(), Error> {
    let session = client.session();
    let mut attempts = Attempts::new(session, closing, session.limits().read);
    let mut start = bytes.start;
    let next = |start: u64, landing: &mut dyn Landing| {
        let granule_end = (start / GRANULE + 1) * GRANULE;
        match granule_end.min(bytes.end) - start {
            0 => Partial::new(Vec::new(), 0),
            len => Partial::new(landing.buffer(), len as usize),
        }
    };
    let mut piece = next(start, landing);
    loop {
        let missing = start + piece.filled as u64..bytes.end;
        if missing.is_empty() {
            return Ok(());
        }
        let fetched = client.range(&missing, version).and_then(|mut body| {
            while start < bytes.end {
                piece.fill(&mut body, &attempts)?;
                start += piece.bytes.len() as u64;
                let whole = std::mem::replace(&mut piece, next(start, landing));
                landing.landed(whole.bytes);
                attempts.progress();
            }
            body.finish();
            Ok(())
        });
        if let Err(failure) = fetched {
            landing.failed(&failure.error);
            attempts.again(failure)?;
        }
    }
}

/// A piece of which some bytes have arrived.
struct Partial {
    bytes: Vec<u8>,
    filled: usize,
}

impl Partial {
    fn new(mut buffer: Vec<u8>, len: usize) -> Self {
        buffer.resize(len, 0);
        Self {
            bytes: buffer,
            filled: 0,
        }
    }

    /// Reads the rest of it.
    fn fill(&mut self, body: &mut Body, attempts: &Attempts<'_>) -> Result<(), Error> {
        while self.filled < self.bytes.len() {
            attempts.closing.check()?;
            if attempts.is_late() {
                return Err(Error::Broken("it is too slow".to_owned()));
            }
            let read = body.read(&mut self.bytes[self.filled..])?;
            let received = &attempts.session.counters().bytes;
            received.fetch_add(read as u64, Relaxed);
            self.filled += read;
        }
        Ok(())
    }
}
