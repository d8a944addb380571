use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use verimount_source::{ReadAt, ReadError, check_range};
use verimount_sync::Mutex;

use crate::{
    Mirrors,
    blame::{Blame, STRIKES},
    given::{Given, Giver},
    repairs::Job,
};

/// The first pause when all places fail. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A part of content that is in several [places](Mirrors).
#[derive(Debug)]
pub struct Mirrored {
    mirrors: Arc<Mirrors>,
    shared: Arc<Shared>,
    given: Given,
}

/// What the repairs of a part need.
pub(crate) struct Shared {
    pub(crate) what: &'static str,
    /// By place.
    pub(crate) copies: Vec<Arc<dyn ReadAt>>,
    blame: Mutex<Blame>,
    /// Whether there is any: most reads need not look.
    is_any_blamed: AtomicBool,
}

impl Mirrored {
    pub(crate) fn new(
        mirrors: Arc<Mirrors>,
        what: &'static str,
        copies: Vec<Arc<dyn ReadAt>>,
    ) -> Self {
        assert_eq!(
            copies.len(),
            mirrors.places().len(),
            "one copy at each place"
        );
        let size = |copy: &Arc<dyn ReadAt>| copy.size();
        assert!(copies.iter().all(|copy| size(copy) == size(&copies[0])));
        let blame = Mutex::new(Blame::new(copies.len()));
        Self {
            mirrors,
            shared: Arc::new(Shared {
                what,
                copies,
                blame,
                is_any_blamed: AtomicBool::new(false),
            }),
            given: Given::default(),
        }
    }

    /// Reads what all places have alike, as far as that is known, from the best of them, or else from any. Returns which one
    /// that was.
    fn read_piece(
        &self,
        buf: &mut [u8],
        offset: u64,
        strikes: &[u8],
        deadline: Instant,
    ) -> Result<Giver, ReadError> {
        let read = self.read_best(buf, offset, strikes, deadline);
        read.map(Giver::Place).or_else(|error| {
            // So that who verifies it tells what is wrong, and not only that others cannot be reached.
            let struck = (0..strikes.len()).filter(|place| strikes[*place] >= STRIKES);
            let mut copies = struck.map(|place| &self.shared.copies[place]);
            match copies.any(|copy| copy.read_exact_at(buf, offset).is_ok()) {
                true => Ok(Giver::LastResort),
                false => Err(error),
            }
        })
    }

    /// The same, from places that may have it right.
    fn read_best(
        &self,
        buf: &mut [u8],
        offset: u64,
        strikes: &[u8],
        deadline: Instant,
    ) -> Result<usize, ReadError> {
        let range = offset..offset + buf.len() as u64;
        let mut order = self.order(strikes);
        let mut pause = FIRST_PAUSE;
        // Those that are well, then those that rest, and then all of them again and again.
        let mut asks_resting = false;
        loop {
            let mut last = None;
            // What fails on this machine fails again.
            let mut gone = Vec::new();
            for &place in &order {
                let copy = &self.shared.copies[place];
                let at = &self.mirrors.places()[place];
                if !asks_resting && !at.is_well_again(copy) {
                    continue;
                }
                match at.read(copy, buf, offset) {
                    Ok(()) => return Ok(place),
                    Err(error) => last = Some(error),
                }
                if at.is_near() {
                    gone.push(place);
                    self.blame(&range, place);
                }
            }
            order.retain(|place| !gone.contains(place));
            match last {
                Some(error) if order.is_empty() => return Err(error),
                Some(error) if asks_resting => {
                    if Instant::now() + pause >= deadline || !self.mirrors.pause(pause) {
                        return Err(error);
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                _ => asks_resting = true,
            }
        }
    }

    /// In which order places are asked for a range: those with fewer strikes first, and none with too many, unless all have.
    fn order(&self, strikes: &[u8]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..strikes.len()).collect();
        if strikes.iter().any(|strikes| *strikes < STRIKES) {
            order.retain(|place| strikes[*place] < STRIKES);
        }
        order.sort_by_key(|place| strikes[*place]);
        order
    }

    /// The end of what places have alike from `range`'s start on, and their strikes.
    fn strikes(&self, range: &Range<u64>) -> (u64, Vec<u8>) {
        match self.shared.is_any_blamed.load(Acquire) {
            true => self.shared.blame.lock().at(range),
            false => (range.end, vec![0; self.shared.copies.len()]),
        }
    }

    fn blame(&self, range: &Range<u64>, place: usize) {
        if self.shared.blame(range, place) {
            self.mirrors.places()[place].is_wrong_as_a_whole();
        }
    }

    /// Gives a hint to the place that is likely to be asked.
    fn hint(&self, hint: impl FnOnce(&dyn ReadAt)) {
        let places = self.mirrors.places().iter();
        let mut both = places.zip(&self.shared.copies);
        if let Some((_, copy)) = both.find(|(place, _)| place.is_well()) {
            hint(copy);
        }
    }
}

impl Shared {
    /// Counts a strike; whether there are too many.
    fn blame(&self, range: &Range<u64>, place: usize) -> bool {
        let mut blame = self.blame.lock();
        let are_many = blame.strike(range, place);
        self.is_any_blamed.store(!blame.is_empty(), Release);
        are_many
    }

    /// A place has a range right now.
    pub(crate) fn pardon(&self, range: &Range<u64>, place: usize) {
        let mut blame = self.blame.lock();
        blame.clear(range, place);
        self.is_any_blamed.store(!blame.is_empty(), Release);
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("what", &self.what)
            .field("blame", &self.blame)
            .finish_non_exhaustive()
    }
}

impl ReadAt for Mirrored {
    fn size(&self) -> u64 {
        self.shared.copies.first().map_or(0, ReadAt::size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size())?;
        let end = offset + buf.len() as u64;
        let deadline = Instant::now() + self.mirrors.timeout;
        let mut pieces = Vec::new();
        let (mut at, mut rest) = (offset, buf);
        while at < end {
            let (until, strikes) = self.strikes(&(at..end));
            let (now, later) = rest.split_at_mut((until - at) as usize);
            let giver = self.read_piece(now, at, &strikes, deadline)?;
            pieces.push((at..until, giver));
            (at, rest) = (until, later);
        }
        let is_healed = |giver: Giver| matches!(giver, Giver::Place(1..));
        if pieces.iter().any(|(_, giver)| is_healed(*giver)) {
            self.mirrors.healed.fetch_add(1, Relaxed);
        }
        self.given.note(&(offset..end), pieces);
        Ok(())
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.hint(|copy| copy.will_need(offset, len));
    }

    fn will_reach(&self, offset: u64, len: u64) {
        self.hint(|copy| copy.will_reach(offset, len));
    }

    fn distrust(&self, offset: u64, len: u64) -> bool {
        let range = offset..offset.saturating_add(len).min(self.size());
        let mut others_answer = true;
        for (piece, giver) in self.given.take(&range) {
            let Giver::Place(place) = giver else {
                others_answer = false;
                continue;
            };
            let len = piece.end - piece.start;
            self.mirrors.places()[place].was_wrong(self.shared.what, piece.start, len);
            self.shared.copies[place].distrust(piece.start, len);
            self.blame(&piece, place);
        }
        // If this thread has read nothing of it here, a layer above had wrong bytes of its own.
        others_answer && self.shared.blame.lock().has_hope(&range)
    }

    fn copies(&self) -> u32 {
        // Each may be asked until it has its strikes.
        u32::from(STRIKES)
            .saturating_mul(u32::try_from(self.shared.copies.len()).unwrap_or(u32::MAX))
    }

    fn mend(&self, offset: u64, right: &[u8]) -> io::Result<()> {
        let range = offset..offset + right.len() as u64;
        self.given.take(&range);
        if !self.shared.is_any_blamed.load(Acquire) {
            return Ok(());
        }
        for place in (0..self.shared.copies.len()).filter(|place| self.mirrors.mends(*place)) {
            let wrong = self.shared.blame.lock().against(&range, place);
            for wrong in wrong {
                let bytes = (wrong.start - offset) as usize..(wrong.end - offset) as usize;
                self.mirrors.repair(Job {
                    part: self.shared.clone(),
                    place,
                    at: self.mirrors.places()[place].clone(),
                    offset: wrong.start,
                    bytes: right[bytes].to_vec(),
                });
            }
        }
        Ok(())
    }
}
