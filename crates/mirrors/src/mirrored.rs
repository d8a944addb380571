use std::{
    io, iter,
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

use verimount_source::{Ask, Fetch, Given, Hint, ReadError, check_range, stream_in_pieces};
use verimount_sync::Mutex;

use crate::{
    Mirrors,
    blame::{Blame, STRIKES},
    giver::Who,
    repairs::Job,
};

/// The first pause when all places fail. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The error of the system for writing what was opened to be read; it has no kind.
const EBADF: i32 = 9;

/// How long a near place is asked for parts of what it could not give as a whole: a disk may try for seconds to read a bad sector,
/// and others may have it right.
const HALVING: Duration = Duration::from_secs(1);

/// The size in bytes of the smallest part in which a near place is asked that has failed: a block of most disks and seals.
const SMALLEST: u64 = 4096;

/// A part of content that is in several [places](Mirrors).
pub struct Mirrored {
    mirrors: Arc<Mirrors>,
    shared: Arc<Shared>,
}

/// What the repairs of a part need.
pub(crate) struct Shared {
    pub(crate) what: &'static str,
    /// By place.
    pub(crate) copies: Vec<Arc<dyn Fetch>>,
    /// By place: data and tree may be in different files.
    is_read_only: Vec<AtomicBool>,
    blame: Mutex<Blame>,
    /// Whether there is any: most reads need not look.
    is_any_blamed: AtomicBool,
}

/// What cannot be read at a place, and why.
type Unread = (Range<u64>, ReadError);

/// What a read was answered with.
enum Answer {
    /// All of it, by this place.
    All(usize),
    /// All but `rest`, by this place; `order` are the others that may have that.
    Partly {
        place: usize,
        rest: Vec<Unread>,
        order: Vec<usize>,
    },
}

impl Mirrored {
    pub(crate) fn new(
        mirrors: Arc<Mirrors>,
        what: &'static str,
        copies: Vec<Arc<dyn Fetch>>,
    ) -> Self {
        assert_eq!(
            copies.len(),
            mirrors.places().len(),
            "one copy at each place"
        );
        assert!(
            copies
                .iter()
                .all(|copy| copy.length() == copies[0].length())
        );
        let blame = Mutex::new(Blame::new(copies.len()));
        let is_read_only = copies.iter().map(|_| AtomicBool::new(false)).collect();
        Self {
            mirrors,
            shared: Arc::new(Shared {
                what,
                copies,
                is_read_only,
                blame,
                is_any_blamed: AtomicBool::new(false),
            }),
        }
    }

    /// Fetches what all places have alike, as far as that is known, from the best of them, or else from any.
    fn read_piece(
        &self,
        buf: &mut [u8],
        offset: u64,
        strikes: &[u8],
        deadline: Instant,
    ) -> Result<Given, ReadError> {
        let mut given = Given::default();
        let whole = offset..offset + buf.len() as u64;
        let mut left = vec![(whole, self.order(strikes), None)];
        while let Some((range, order, error)) = left.pop() {
            let part = part_of(buf, offset, &range);
            let read = match error.filter(|_| order.is_empty()) {
                Some(error) => Err(error),
                None => self.read_best(part, &range, order, deadline),
            };
            let by =
                |range, place: usize| Given::by(range, Who::Place(place, strikes[place]).into());
            match read {
                Ok(Answer::All(place)) => given.add(by(range, place)),
                Ok(Answer::Partly { place, rest, order }) => {
                    let read = without(&range, &rest).into_iter();
                    read.for_each(|range| given.add(by(range, place)));
                    let rest = rest.into_iter();
                    left.extend(rest.map(|(range, error)| (range, order.clone(), Some(error))));
                }
                Err(error) => {
                    // So that who verifies it tells what is wrong, and not only that others cannot be reached.
                    let struck = (0..strikes.len()).filter(|place| strikes[*place] >= STRIKES);
                    let mut read = struck.map(|place| self.read_at(place, part, range.start));
                    if !read.any(|read| read.is_ok()) {
                        return Err(error);
                    }
                    given.add(Given::by(range, Who::LastResort.into()));
                }
            }
        }
        Ok(given)
    }

    /// Reads a range from places that may have it right, in this order. Ends when one has answered, as far as it can.
    fn read_best(
        &self,
        buf: &mut [u8],
        range: &Range<u64>,
        mut order: Vec<usize>,
        deadline: Instant,
    ) -> Result<Answer, ReadError> {
        let mut pause = FIRST_PAUSE;
        // Those that are well, then those that rest, and then all of them again and again.
        let mut asks_resting = false;
        loop {
            let mut last = None;
            // What fails on this machine fails again.
            let mut gone = Vec::new();
            for &place in &order {
                let at = &self.mirrors.places()[place];
                if !asks_resting && !at.is_well_again(&self.shared.copies[place]) {
                    continue;
                }
                let until = Instant::now() + HALVING;
                let error = match self.read_at(place, buf, range.start) {
                    Ok(()) => return Ok(Answer::All(place)),
                    Err(error) => error,
                };
                if !at.is_near() {
                    last = Some(error);
                    continue;
                }
                gone.push(place);
                let mut rest = if may_concern_a_part(&error) {
                    self.read_in_halves(place, buf, range, error, until)
                } else {
                    vec![(range.clone(), error)]
                };
                rest.iter().for_each(|(range, _)| self.blame(range, place));
                match rest.pop_if(|(failed, _)| failed == range) {
                    Some((_, error)) => last = Some(error),
                    None => {
                        order.retain(|place| !gone.contains(place));
                        return Ok(Answer::Partly { place, rest, order });
                    }
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

    /// Reads from a place. One that was wrong has its wrong bytes in a cache, perhaps, out of which others would give them.
    fn read_at(&self, place: usize, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let past_caches = self.is_far_blamed(&(offset..offset + buf.len() as u64));
        self.mirrors.places()[place].read(&self.shared.copies[place], buf, offset, past_caches)
    }

    /// Whether any of a range counts against a place that a cache may stand for.
    fn is_far_blamed(&self, range: &Range<u64>) -> bool {
        if !self.shared.is_any_blamed.load(Acquire) {
            return false;
        }
        let mut blame = self.shared.blame.lock();
        let places = self.mirrors.places().iter().enumerate();
        let mut far = places.filter(|(_, place)| !place.is_near());
        far.any(|(place, _)| !blame.against(range, place).is_empty())
    }

    /// Reads a range at a near place where it could not be read as a whole, in halves, and these in halves. Returns what
    /// could not be read there until then, in order.
    fn read_in_halves(
        &self,
        place: usize,
        buf: &mut [u8],
        range: &Range<u64>,
        error: ReadError,
        until: Instant,
    ) -> Vec<Unread> {
        let copy = &self.shared.copies[place];
        let mut failed: Vec<Unread> = Vec::new();
        let mut left = Vec::new();
        let mut next = Some((range.clone(), error));
        while let Some((part, error)) = next {
            if part.end - part.start > SMALLEST && Instant::now() < until {
                left.extend(halves(&part).into_iter().rev());
            } else {
                match failed.last_mut().filter(|(last, _)| last.end == part.start) {
                    Some((last, _)) => last.end = part.end,
                    None => failed.push((part, error)),
                }
            }
            next = iter::from_fn(|| left.pop()).find_map(|part: Range<u64>| {
                let part_buf = part_of(buf, range.start, &part);
                let read = if Instant::now() < until {
                    copy.fetch(part_buf, part.start, Ask::default()).map(drop)
                } else {
                    Err(io::ErrorKind::TimedOut.into())
                        .map_err(ReadError::io(part.start, part_buf.len()))
                };
                read.err().map(|error| (part, error))
            });
        }
        failed
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
        if self.shared.is_any_blamed.load(Acquire) {
            self.shared.blame.lock().at(range)
        } else {
            (range.end, vec![0; self.shared.copies.len()])
        }
    }

    fn blame(&self, range: &Range<u64>, place: usize) {
        if self.shared.blame(range, place) {
            self.mirrors.places()[place].is_wrong_as_a_whole();
        }
    }

    /// Whether wrong bytes are replaced at a place.
    fn mends(&self, place: usize) -> bool {
        self.mirrors.mends(place) && !self.shared.is_read_only(place)
    }

    /// The copy at the place that is likely to be asked.
    fn likely(&self) -> Option<&Arc<dyn Fetch>> {
        let places = self.mirrors.places().iter();
        let mut both = places.zip(&self.shared.copies);
        both.find(|(place, _)| place.is_well())
            .map(|(_, copy)| copy)
    }
}

/// The bytes of a range in a buffer that begins at `offset`.
fn part_of<'b>(buf: &'b mut [u8], offset: u64, range: &Range<u64>) -> &'b mut [u8] {
    &mut buf[(range.start - offset) as usize..(range.end - offset) as usize]
}

/// A range of more than [`SMALLEST`] bytes, in two parts that meet at a multiple of that.
fn halves(range: &Range<u64>) -> [Range<u64>; 2] {
    let half = range.start + (range.end - range.start) / 2;
    let below = half - half % SMALLEST;
    let middle = if below > range.start {
        below
    } else {
        below + SMALLEST
    };
    [range.start..middle, middle..range.end]
}

/// What is left of a range without what could not be read, which is in order.
fn without(range: &Range<u64>, unread: &[Unread]) -> Vec<Range<u64>> {
    let starts = iter::once(range.start).chain(unread.iter().map(|(hole, _)| hole.end));
    let ends = unread.iter().map(|(hole, _)| hole.start);
    let parts = starts.zip(ends.chain(iter::once(range.end)));
    let parts = parts.map(|(start, end)| start..end);
    parts.filter(|part| !part.is_empty()).collect()
}

impl Shared {
    /// Counts a strike; whether there are too many.
    fn blame(&self, range: &Range<u64>, place: usize) -> bool {
        self.change(|blame| blame.strike(range, place))
    }

    /// Counts a strike of a place that had `seen` of them when it was asked. Returns whether any was counted, and
    /// whether there are too many.
    fn blame_once(&self, range: &Range<u64>, place: usize, seen: u8) -> (bool, bool) {
        self.change(|blame| blame.strike_once(range, place, seen))
    }

    /// A place has a range right now.
    pub(crate) fn pardon(&self, range: &Range<u64>, place: usize) {
        self.change(|blame| blame.clear(range, place));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Blame) -> T) -> T {
        let mut blame = self.blame.lock();
        let changed = change(&mut blame);
        self.is_any_blamed.store(!blame.is_empty(), Release);
        changed
    }

    /// Whether nothing can be replaced in the copy at a place.
    pub(crate) fn is_read_only(&self, place: usize) -> bool {
        self.is_read_only[place].load(Relaxed)
    }

    /// Replaces what is wrong in the copy at a place. Returns whether anything is: what was blamed may have been damaged on the
    /// way, or unreadable only once.
    pub(crate) fn mend(&self, place: usize, offset: u64, right: &[u8]) -> io::Result<bool> {
        let copy = &self.copies[place];
        let mut stored = vec![0; right.len()];
        let is_wrong = copy.fetch(&mut stored, offset, Ask::default()).is_err() || stored != right;
        let mended = if is_wrong {
            copy.mend(right, offset).map(|()| true)
        } else {
            Ok(false)
        };
        match &mended {
            Ok(_) => self.pardon(&(offset..offset + right.len() as u64), place),
            // It would fail everywhere. Anything else, such as a bad sector, may concern this range only, or pass.
            Err(error) if says_read_only(error) => self.is_read_only[place].store(true, Relaxed),
            Err(_) => {}
        }
        mended
    }
}

/// Whether other parts of what could not be read may be readable: not if it could not even be opened.
fn may_concern_a_part(error: &ReadError) -> bool {
    match error {
        ReadError::Io { source, .. } => source.raw_os_error().is_some(),
        ReadError::Truncated { .. } => true,
        _ => false,
    }
}

/// Whether a write failed for a reason that every other one has, too.
fn says_read_only(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, Unsupported};
    error.raw_os_error() == Some(EBADF)
        || matches!(
            error.kind(),
            PermissionDenied | ReadOnlyFilesystem | Unsupported
        )
}

impl Fetch for Mirrored {
    fn length(&self) -> u64 {
        self.shared.copies.first().map_or(0, |copy| copy.length())
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        check_range(offset, buf.len(), self.length())?;
        let end = offset + buf.len() as u64;
        // Who has just waited in vain for the others asks again for what is wrong in one read, block by block.
        let waited = |given: &Given| {
            given
                .givers()
                .any(|giver| Who::from(giver) == Who::LastResort)
        };
        let timeout = if ask.after.is_some_and(waited) {
            Duration::ZERO
        } else {
            self.mirrors.timeout
        };
        let deadline = Instant::now() + timeout;
        let mut given = Given::default();
        let (mut at, mut rest) = (offset, buf);
        while at < end {
            let (until, strikes) = self.strikes(&(at..end));
            let (now, later) = rest.split_at_mut((until - at) as usize);
            given.add(self.read_piece(now, at, &strikes, deadline)?);
            (at, rest) = (until, later);
        }
        let is_healed = |giver| matches!(Who::from(giver), Who::Place(1.., _));
        if given.givers().any(is_healed) {
            self.mirrors.healed.fetch_add(1, Relaxed);
        }
        Ok(given)
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        stream_in_pieces(self, range, take)
    }

    fn hint(&self, range: Range<u64>, hint: Hint) {
        if let Some(copy) = self.likely() {
            copy.hint(range, hint);
        }
    }

    fn distrust(&self, range: Range<u64>, given: &Given) -> u32 {
        let range = range.start..range.end.min(self.length());
        let mut others_answer = true;
        for (piece, giver) in given.within(&range) {
            let Who::Place(place, seen) = giver.into() else {
                others_answer = false;
                continue;
            };
            let at = &self.mirrors.places()[place];
            // Before the strike: who has seen that asks for other bytes.
            self.shared.copies[place].distrust(piece.clone(), &Given::default());
            let (is_new, are_many) = self.shared.blame_once(&piece, place, seen);
            if is_new {
                at.was_wrong(self.shared.what, piece.start, piece.end - piece.start);
            }
            if are_many {
                at.is_wrong_as_a_whole();
            }
        }
        // If nothing of it was given here, a layer above had wrong bytes of its own.
        if others_answer && self.shared.blame.lock().has_hope(&range) {
            // Each may be asked until it has its strikes.
            let copies = u32::try_from(self.shared.copies.len()).unwrap_or(u32::MAX);
            u32::from(STRIKES).saturating_mul(copies)
        } else {
            0
        }
    }

    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()> {
        if !self.shared.is_any_blamed.load(Acquire) {
            return Ok(());
        }
        let range = offset..offset + right.len() as u64;
        for place in (0..self.shared.copies.len()).filter(|place| self.mends(*place)) {
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
