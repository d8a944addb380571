//! Other releases in the place of content, which were published over it.
//!
//! What has taken the place is another release if its seal is signed with the key that is required, and if what was read there is
//! what that seal says. Both is needed: anybody can put the seal of a true release in front of anything. Without a key, nothing
//! tells a release from damage or forgery.

use std::{
    fmt, io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use verimount_source::{Fetch, GRANULE, ReadAt, ReadError};
use verimount_sync::Mutex;
use verimount_verity::{
    FileDigest, Identity, Mismatch, Releases, Seal, VerifiedReader, VerifyOptions as ReaderOptions,
};

use crate::{
    Error, Location, Options,
    accepted::Accepted,
    far::{Access, Replaced},
    fault::Fault,
    place::Place,
};

/// How long what was found at a place counts at most. It ends sooner when a server says that a file has changed.
const RECENT: Duration = Duration::from_secs(60);

/// How much of another release's tree is kept in memory, in bytes.
const TREE_CACHE: usize = 1 << 20;

/// Another release.
struct Release {
    at: Location,
    digest: FileDigest,
    reader: VerifiedReader,
}

impl Release {
    /// The release in `source`, the file at a place, if its seal is accepted as `signed`, and is not that of `own`.
    fn of(place: &Place, source: Arc<dyn Fetch>, signed: &Accepted, own: &Seal) -> Option<Self> {
        let found = signed.find(place, source).ok()?;
        let Identity::FileDigest(digest) = *found.identity() else {
            return None;
        };
        if found.identity() == own.identity() {
            return None;
        }
        let options = ReaderOptions {
            cache_bytes: TREE_CACHE,
            ..ReaderOptions::default()
        };
        let reader = VerifiedReader::new(found, options).ok()?;
        Some(Self {
            at: place.location().clone(),
            digest,
            reader,
        })
    }

    /// Whether all of these blocks are its own.
    fn has(&self, blocks: &[Mismatch]) -> bool {
        let is_own = |block: &Mismatch| {
            let digest = self.reader.digest_at(block.place, block.offset);
            matches!(digest, Ok(Some(digest)) if digest == block.actual)
        };
        blocks.iter().all(is_own)
    }

    /// Reads some of a range or, where it has nothing of that, its first byte.
    ///
    /// # Errors
    /// Those of reading, and [`ReadError::Rejected`] if that is not what its seal says.
    fn sample(&self, range: &Range<u64>) -> Result<(), ReadError> {
        let size = self.reader.size();
        let end = range.end.min(size);
        let (start, len) = match end.checked_sub(range.start) {
            None | Some(0) => (0, size.min(1)),
            Some(len) => (range.start, len.min(GRANULE)),
        };
        self.reader.read_exact_at(&mut vec![0; len as usize], start)
    }

    /// Why nothing else is read there.
    fn error(&self, access: &Access) -> io::Error {
        access.was_replaced(&self.at, &self.digest);
        io::Error::other(Replaced(self.digest))
    }
}

/// Why a place on another machine has nothing of the content of a seal, if there is another release in `source`, its file. Some of
/// `range` of that is read, which somebody has asked for.
///
/// # Errors
/// Those of reading, and [`Corrupt`](crate::ErrorKind::Corrupt) if that is not what the seal there says.
pub(crate) fn other_release(
    place: &Place,
    source: Arc<dyn Fetch>,
    accepted: &Accepted,
    own: &Seal,
    range: &Range<u64>,
) -> Result<Option<io::Error>, Error> {
    let signed = accepted.signed().filter(|_| place.location().is_remote());
    let release = signed.and_then(|signed| Release::of(place, source, &signed, own));
    let Some(release) = release else {
        return Ok(None);
    };
    let sample = release.sample(range);
    sample.map_err(|error| Fault::read(place.location(), error))?;
    Ok(Some(release.error(&place.access)))
}

/// Who knows of other releases in the place of the content of a seal: that at `location`, and its mirrors on other machines.
/// `None` if there is no such place.
pub(crate) fn releases(
    location: &Location,
    signed: Accepted,
    own: &Seal,
    options: &Options,
) -> Option<Arc<dyn Releases>> {
    let places = Place::new(location.clone(), options).and_mirrors(options);
    let far = places.filter(|place| place.location().is_remote());
    let places: Vec<Place> = far.map(Place::absolute).collect();
    if places.is_empty() {
        return None;
    }
    Some(Arc::new(Known {
        places,
        signed,
        own: own.clone(),
        access: options.access.clone(),
        last: Mutex::default(),
        is_judging: AtomicBool::new(false),
    }))
}

/// What is known of other releases in the place of content.
struct Known {
    places: Vec<Place>,
    signed: Accepted,
    own: Seal,
    access: Access,
    last: Mutex<Option<Look>>,
    /// Whether a thread judges blocks that nobody waits for.
    is_judging: AtomicBool,
}

/// What was found at the places.
struct Look {
    at: Instant,
    /// How often files had changed by then.
    changes: u64,
    found: Arc<[Release]>,
}

impl Known {
    /// The releases at the places. They are looked for once for all who need them, and again only after a change.
    fn found(&self) -> Arc<[Release]> {
        let mut last = self.last.lock();
        if let Some(look) = last.as_ref().filter(|look| self.is_recent(look)) {
            return look.found.clone();
        }
        let (at, changes) = (Instant::now(), self.access.changes());
        let found = self.places.iter().filter_map(|place| {
            let (source, _) = place.content().ok()?;
            Release::of(place, source, &self.signed, &self.own)
        });
        let found: Arc<[Release]> = found.collect();
        *last = Some(Look {
            at,
            changes,
            found: found.clone(),
        });
        found
    }

    fn is_recent(&self, look: &Look) -> bool {
        look.changes == self.access.changes() && look.at.elapsed() < RECENT
    }

    /// Whether a release was found just now, or is being looked for.
    fn is_settled(&self) -> bool {
        let Some(last) = self.last.try_lock() else {
            return true;
        };
        let recent = last.as_ref().filter(|look| self.is_recent(look));
        recent.is_some() && self.access.has_replacement()
    }
}

impl Releases for Known {
    fn failure(&self, wrong: &[Mismatch]) -> Option<ReadError> {
        let (first, last) = (wrong.first()?, wrong.last()?);
        let found = self.found();
        let release = found.iter().find(|release| release.has(wrong))?;
        let offset = first.covers.start;
        let len = last.covers.end.saturating_sub(offset) as usize;
        Some(ReadError::io(offset, len)(release.error(&self.access)))
    }

    /// Another place or copy may have the blocks right, so nobody waits until it is known what they are.
    fn suspect(self: Arc<Self>, wrong: Vec<Mismatch>) {
        if self.is_settled() || self.is_judging.swap(true, Relaxed) {
            return;
        }
        let known = self.clone();
        let judge = move || {
            // Whether it is a release is noted.
            let _ = known.failure(&wrong);
            known.is_judging.store(false, Relaxed);
        };
        let thread = thread::Builder::new().name("releases".to_owned());
        if thread.spawn(judge).is_err() {
            self.is_judging.store(false, Relaxed);
        }
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.places.iter().map(Place::location);
        f.debug_list().entries(places).finish()
    }
}
