use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use verimount_source::Fetch;
use verimount_sync::{Condvar, Mutex};

use crate::{
    Mirrored, PlaceKind, PlaceStats,
    place::Place,
    repairs::{Job, Repairs},
};

/// The places of one content, and what is known of each.
pub struct Mirrors {
    places: Vec<Arc<Place>>,
    /// How long a read may take.
    pub(crate) timeout: Duration,
    /// Reads that needed another place than the first.
    pub(crate) healed: AtomicU64,
    /// Where wrong bytes are replaced, if they are.
    repairs: Option<Repairs>,
    is_closed: Mutex<bool>,
    closing: Condvar,
}

/// What several places did so far for each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct MirrorStats {
    /// Reads that the first place failed, or gave wrong bytes for, and that another one answered, at least in part.
    pub healed: u64,
    /// Ranges that were replaced by right bytes.
    pub ranges_repaired: u64,
    /// The places, in the order in which they are asked.
    pub places: Vec<PlaceStats>,
}

impl Mirrors {
    /// Places, by their names, in the order in which they are asked. A read may take as long as `timeout`, at least if it
    /// fails. With `mends`, wrong bytes are replaced at places that are near.
    pub fn new<N: Into<String>>(
        places: impl IntoIterator<Item = (N, PlaceKind)>,
        timeout: Duration,
        mends: bool,
    ) -> Arc<Self> {
        let places = places.into_iter();
        let places = places.map(|(name, kind)| Arc::new(Place::new(name.into(), kind, timeout)));
        Arc::new(Self {
            places: places.collect(),
            timeout,
            healed: AtomicU64::new(0),
            repairs: mends.then(Repairs::default),
            is_closed: Mutex::new(false),
            closing: Condvar::new(),
        })
    }

    /// A part of the content, such as its data, of which there is a copy of the same size at each place. `what` is what it
    /// is called in messages.
    pub fn part(self: &Arc<Self>, what: &'static str, copies: Vec<Arc<dyn Fetch>>) -> Mirrored {
        Mirrored::new(self.clone(), what, copies)
    }

    /// A place, by its number, could not be opened, for this reason.
    pub fn could_not_open(&self, place: usize, reason: &dyn Display) {
        self.places[place].could_not_be_opened(reason);
    }

    /// What was done so far.
    pub fn stats(&self) -> MirrorStats {
        MirrorStats {
            healed: self.healed.load(Relaxed),
            ranges_repaired: self.repairs.as_ref().map_or(0, Repairs::done),
            places: self.places.iter().map(|place| place.stats()).collect(),
        }
    }

    /// Ends all reads that wait for a place to be well again.
    pub fn close(&self) {
        *self.is_closed.lock() = true;
        self.closing.notify_all();
    }

    /// Waits until all that was found wrong so far is replaced, where that is possible.
    pub fn finish_repairs(&self) {
        if let Some(repairs) = &self.repairs {
            repairs.finish();
        }
    }

    pub(crate) fn places(&self) -> &[Arc<Place>] {
        &self.places
    }

    /// Whether wrong bytes are replaced at a place, where that is possible.
    pub(crate) fn mends(&self, place: usize) -> bool {
        self.repairs.is_some() && self.places[place].is_near()
    }

    /// Replaces wrong bytes soon.
    pub(crate) fn repair(&self, job: Job) {
        if let Some(repairs) = &self.repairs {
            repairs.add(job);
        }
    }

    /// Waits; whether to go on then.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let is_open = |is_closed: &mut bool| !*is_closed;
        let is_closed = self.is_closed.lock();
        !*self.closing.wait_timeout_while(is_closed, pause, is_open)
    }
}
