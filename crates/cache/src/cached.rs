use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use verimount_source::{
    Ask, Fetch, GRANULE, Given, Hint, ReadError, check_range, granules, whole_granules,
};

use crate::Object;

/// How far ahead a hint is followed, in granules.
const MAX_HINT: usize = 256;

/// Another source, of which an [`Object`] of the same size keeps what was read.
pub struct Cached {
    source: Arc<dyn Fetch>,
    object: Object,
    /// Whether something wrong is kept that could not be dropped.
    is_wrong: AtomicBool,
    /// What no process may remove as long as this is read.
    _held: Vec<Object>,
}

impl Cached {
    /// Keeps what is read from `source` in `object`.
    pub fn new(source: Arc<dyn Fetch>, object: Object) -> Self {
        Self {
            source,
            object,
            is_wrong: AtomicBool::new(false),
            _held: Vec::new(),
        }
    }

    /// Also holds `objects`, without which what is kept is of no use.
    #[must_use]
    pub fn holding(self, objects: Vec<Object>) -> Self {
        Self {
            _held: objects,
            ..self
        }
    }

    /// Reads bytes from the source, and keeps the granules that they are in.
    fn fetch_and_keep(
        &self,
        buf: &mut [u8],
        offset: u64,
        ask: Ask<'_>,
    ) -> Result<Given, ReadError> {
        let end = offset + buf.len() as u64;
        let Range { start, end: stop } = whole_granules(&(offset..end), self.length());
        let (head, rest) = buf.split_at_mut((start - offset) as usize);
        let (whole, tail) = rest.split_at_mut((stop - start) as usize);
        let pieces = [&*head, whole, tail].map(|piece| usize::from(!piece.is_empty()));
        if pieces.iter().sum::<usize>() > 1 {
            // The source can get at once what is then read from it piece by piece.
            self.need(Some(granules(&(offset..end))));
        }
        let mut given = self.fetch_part(head, offset, ask)?;
        if !whole.is_empty() {
            given.add(self.source.fetch(whole, start, ask)?);
            self.object.keep(whole, start, self.replaces(ask));
        }
        given.add(self.fetch_part(tail, stop, ask)?);
        Ok(given)
    }

    /// Reads and keeps the granule that has these bytes, if there are any.
    fn fetch_part(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        if buf.is_empty() {
            return Ok(Given::default());
        }
        let whole = offset / GRANULE * GRANULE;
        let mut bytes = vec![0; GRANULE.min(self.length() - whole) as usize];
        let given = self.source.fetch(&mut bytes, whole, ask)?;
        self.object.keep(&bytes, whole, self.replaces(ask));
        let start = (offset - whole) as usize;
        buf.copy_from_slice(&bytes[start..start + buf.len()]);
        Ok(given)
    }

    /// Whether what is kept is not read, but replaced.
    fn replaces(&self, ask: Ask<'_>) -> bool {
        ask.past_caches || self.is_wrong.load(Relaxed)
    }

    fn need(&self, granules: Option<Range<u64>>) {
        if let Some(run) = granules {
            let bytes = run.start * GRANULE..run.end * GRANULE;
            self.source.hint(bytes, Hint::Need);
        }
    }
}

impl Fetch for Cached {
    fn length(&self) -> u64 {
        self.source.length()
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        check_range(offset, buf.len(), self.length())?;
        let end = offset + buf.len() as u64;
        self.object.look_up(granules(&(offset..end)));
        let reads_kept = !self.replaces(ask);
        let is_read_here = |granule| reads_kept && self.object.is_known(granule);
        let mut given = Given::default();
        let (mut at, mut rest) = (offset, buf);
        while at < end {
            // The longest run of granules all of which are kept, or none.
            let all = granules(&(at..end));
            let is_kept = is_read_here(all.start);
            let mut others = all.start + 1..all.end;
            let other = others.find(|granule| is_read_here(*granule) != is_kept);
            let until = other.map_or(end, |granule| granule * GRANULE);
            debug_assert!(at < until, "each step goes on");
            let (now, later) = rest.split_at_mut((until - at) as usize);
            if !is_kept || !self.object.read(now, at) {
                given.add(self.fetch_and_keep(now, at, ask)?);
            }
            (at, rest) = (until, later);
        }
        Ok(given)
    }

    /// Past what is kept, as nothing more is to be.
    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        self.source.stream(range, take)
    }

    fn hint(&self, range: Range<u64>, _: Hint) {
        let end = range.end.min(self.length());
        let mut missing: Option<Range<u64>> = None;
        for granule in granules(&(range.start.min(end)..end)).take(MAX_HINT) {
            if self.object.is_known(granule) {
                continue;
            }
            match &mut missing {
                Some(run) if run.end == granule => run.end += 1,
                other => self.need(other.replace(granule..granule + 1)),
            }
        }
        self.need(missing);
    }

    fn distrust(&self, range: Range<u64>, given: &Given) -> u32 {
        let end = range.end.min(self.length());
        let range = range.start.min(end)..end;
        if !self.object.reject(range.clone()) {
            // In a cache that cannot be written, what is wrong stays.
            self.is_wrong.store(true, Relaxed);
        }
        // What was kept here, and those of the source.
        self.source.distrust(range, given).saturating_add(1)
    }

    /// What is wrong here was dropped when it was distrusted.
    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()> {
        self.source.mend(right, offset)
    }
}
