use std::{
    io,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use verimount_source::{GRANULE, ReadAt, ReadError, check_range, granules};

use crate::Object;

/// How far ahead a hint is followed, in granules.
const MAX_HINT: usize = 256;

/// How long a reader waits for the source that can ask elsewhere; `None` if it cannot.
type Patience = Option<Duration>;

/// Another source, of which an [`Object`] of the same size keeps what was read.
#[derive(Debug)]
pub struct Cached<S> {
    source: S,
    object: Object,
    refreshes: AtomicBool,
    /// What no process may remove as long as this is read.
    _held: Vec<Object>,
}

impl<S: ReadAt> Cached<S> {
    /// Keeps what is read from `source` in `object`.
    pub fn new(source: S, object: Object) -> Self {
        Self {
            source,
            object,
            refreshes: AtomicBool::new(false),
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

    /// Whether everything is read from the source, to replace what is kept.
    pub fn set_refreshing(&self, refreshes: bool) {
        self.refreshes.store(refreshes, Relaxed);
    }

    fn is_kept(&self, granule: u64) -> bool {
        !self.refreshes.load(Relaxed) && self.object.is_known(granule)
    }

    /// Reads bytes from the source, and keeps the granules that they are in.
    fn fetch(&self, buf: &mut [u8], offset: u64, patience: Patience) -> Result<(), ReadError> {
        let end = offset + buf.len() as u64;
        // Between them are whole granules; the last one of the source may be short.
        let start = offset.next_multiple_of(GRANULE).min(end);
        let stop = if end == self.size() {
            end
        } else {
            (end / GRANULE * GRANULE).max(start)
        };
        let (head, rest) = buf.split_at_mut((start - offset) as usize);
        let (whole, tail) = rest.split_at_mut((stop - start) as usize);
        let pieces = [&*head, whole, tail].map(|piece| usize::from(!piece.is_empty()));
        if pieces.iter().sum::<usize>() > 1 {
            // The source can get at once what is then read from it piece by piece.
            self.hint(Some(granules(&(offset..end))));
        }
        self.fetch_part(head, offset, patience)?;
        if !whole.is_empty() {
            self.read_source(whole, start, patience)?;
            self.object.keep(whole, start);
        }
        self.fetch_part(tail, stop, patience)
    }

    /// Reads and keeps the granule that has these bytes, if there are any.
    fn fetch_part(&self, buf: &mut [u8], offset: u64, patience: Patience) -> Result<(), ReadError> {
        if buf.is_empty() {
            return Ok(());
        }
        let whole = offset / GRANULE * GRANULE;
        let mut bytes = vec![0; GRANULE.min(self.size() - whole) as usize];
        self.read_source(&mut bytes, whole, patience)?;
        self.object.keep(&bytes, whole);
        let start = (offset - whole) as usize;
        buf.copy_from_slice(&bytes[start..start + buf.len()]);
        Ok(())
    }

    fn read_source(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Patience,
    ) -> Result<(), ReadError> {
        match patience {
            Some(patience) => self.source.read_within(buf, offset, patience),
            None => self.source.read_exact_at(buf, offset),
        }
    }

    fn read(&self, buf: &mut [u8], offset: u64, patience: Patience) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size())?;
        let end = offset + buf.len() as u64;
        self.object.look_up(granules(&(offset..end)));
        let (mut at, mut rest) = (offset, buf);
        while at < end {
            // The longest run of granules all of which are kept, or none.
            let all = granules(&(at..end));
            let is_kept = self.is_kept(all.start);
            let mut others = all.start + 1..all.end;
            let other = others.find(|granule| self.is_kept(*granule) != is_kept);
            let until = other.map_or(end, |granule| granule * GRANULE);
            debug_assert!(at < until, "each step goes on");
            let (now, later) = rest.split_at_mut((until - at) as usize);
            if !is_kept || !self.object.read(now, at) {
                self.fetch(now, at, patience)?;
            }
            (at, rest) = (until, later);
        }
        Ok(())
    }

    fn hint(&self, granules: Option<Range<u64>>) {
        if let Some(run) = granules {
            let start = run.start * GRANULE;
            self.source.will_need(start, run.end * GRANULE - start);
        }
    }
}

impl<S: ReadAt> ReadAt for Cached<S> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.read(buf, offset, None)
    }

    fn read_within(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<(), ReadError> {
        self.read(buf, offset, Some(patience))
    }

    fn will_need(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.size());
        let mut missing: Option<Range<u64>> = None;
        for granule in granules(&(offset.min(end)..end)).take(MAX_HINT) {
            if self.object.is_known(granule) {
                continue;
            }
            match &mut missing {
                Some(run) if run.end == granule => run.end += 1,
                other => self.hint(other.replace(granule..granule + 1)),
            }
        }
        self.hint(missing);
    }

    fn distrust(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len).min(self.size());
        if !self.object.reject(granules(&(offset.min(end)..end))) {
            // In a cache that cannot be written, what is wrong stays.
            self.set_refreshing(true);
        }
        self.source.distrust(offset, len);
        true
    }

    /// What is kept here, and those of the source.
    fn copies(&self) -> u32 {
        self.source.copies().saturating_add(1)
    }

    /// What is wrong here was dropped when it was distrusted.
    fn mend(&self, offset: u64, right: &[u8]) -> io::Result<()> {
        self.source.mend(offset, right)
    }
}
