use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use rustix::fs::{
    FallocateFlags, FlockOperation, OFlags, SeekFrom, copy_file_range, fallocate, fcntl_getfl,
    flock, seek,
};
use verimount_source::{
    Ask, Fetch, GRANULE, Given, Hint, ReadError, check_range, granules, stream_in_pieces,
    whole_granules,
};

use crate::{
    CacheError,
    cache::Shared,
    presence::{Presence, data_ranges},
};

/// How often opening is repeated because another process removes the file at the same time.
const ATTEMPTS: usize = 16;

/// A file of a cache. While it is open, no process removes it; parts of it may be evicted.
#[derive(Debug, Clone)]
pub struct Object(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    cache: Arc<Shared>,
    pub(crate) file: File,
    /// Not if the cache can only be read.
    is_writable: bool,
    presence: Presence,
    /// Where the search for what can be evicted continues, in bytes.
    hand: AtomicU64,
    has_failed: AtomicBool,
}

impl Object {
    pub(crate) fn open(cache: &Arc<Shared>, name: &str, creates: bool) -> Result<Self, CacheError> {
        let file = open_locked(cache, name, creates)?;
        let flags = fcntl_getfl(&file).map_err(|errno| cache.directory.failed(name, errno))?;
        let is_writable = flags.contains(OFlags::RDWR);
        Ok(Self(Arc::new(Inner::new(cache, file, is_writable))))
    }

    /// When it was last used decides when it is removed. That is of no importance if it fails.
    pub(crate) fn was_used(&self) {
        let _ = self.0.file.set_modified(SystemTime::now());
    }

    /// The size of what it is a copy of; `None` if that is not known yet.
    pub fn known_size(&self) -> Option<u64> {
        let size = self.0.file.metadata().ok()?.len();
        Some(size).filter(|size| *size > 0)
    }

    /// Sets the size of what it is a copy of.
    pub(crate) fn set_size(&self, size: u64) -> Result<(), CacheError> {
        if self.known_size() == Some(size) {
            return Ok(());
        }
        let set = rustix::fs::ftruncate(&self.0.file, size);
        set.map_err(|errno| self.0.cache.directory.failed("", errno))
    }

    /// Runs of bytes that are here, of whole granules that overlap `bytes`.
    pub fn data_ranges(&self, bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let size = self.length();
        let ranges = data_ranges(&self.0.file, granules(&bytes));
        ranges.map(move |range| range.start * GRANULE..(range.end * GRANULE).min(size))
    }

    /// Drops what is here of the granules that overlap `bytes`, as it is wrong; whether that succeeded.
    pub fn reject(&self, bytes: Range<u64>) -> bool {
        let granules = granules(&bytes);
        self.look_up(granules.clone());
        let here = granules.filter(|granule| self.is_known(*granule));
        let rejected: Vec<u64> = here.collect();
        let count = rejected.len() as u64 * GRANULE;
        self.0.cache.counters.rejected.fetch_add(count, Relaxed);
        let mut all = true;
        for granule in rejected {
            self.0.presence.remove(granule);
            if let Err(error) = punch(&self.0.file, granule * GRANULE, GRANULE) {
                self.0.failed("dropping what is wrong in the cache", &error);
                all = false;
            }
        }
        all
    }

    /// Whether a granule is here, as far as that is known without asking the system.
    pub(crate) fn is_known(&self, granule: u64) -> bool {
        self.0.presence.use_granule(granule, &self.0.file)
    }

    /// Asks the system for those of these granules that are not known to be here: another process may have written
    /// them.
    pub(crate) fn look_up(&self, mut granules: Range<u64>) {
        let Some(first) = granules.find(|granule| !self.is_known(*granule)) else {
            return;
        };
        for here in data_ranges(&self.0.file, first..granules.end) {
            here.for_each(|granule| self.0.presence.insert(granule, &self.0.file));
        }
    }

    /// Fills `buf`; whether that succeeded, and with what is kept: it may be evicted meanwhile.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> bool {
        self.read_kept(buf, offset).unwrap_or_else(|error| {
            self.0.failed("reading the cache", &error);
            false
        })
    }

    /// Fills `buf`; whether with what is kept.
    fn read_kept(&self, buf: &mut [u8], offset: u64) -> io::Result<bool> {
        self.0.file.read_exact_at(buf, offset)?;
        let len = buf.len() as u64;
        let is_kept = self.are_kept(offset..offset + len);
        if is_kept {
            self.0.cache.counters.read.fetch_add(len, Relaxed);
        }
        Ok(is_kept)
    }

    /// Whether none of the granules of these bytes is a hole now, such as another process makes of what it evicts.
    /// Those that are holes count as missing from now on.
    fn are_kept(&self, bytes: Range<u64>) -> bool {
        // One question for all of them, as long as there is no hole.
        if seek(&self.0.file, SeekFrom::Hole(bytes.start)).is_ok_and(|hole| hole >= bytes.end) {
            return true;
        }
        let mut are_kept = true;
        for granule in granules(&bytes) {
            let start = granule * GRANULE;
            // Whole granules are evicted, so that their beginning tells.
            if seek(&self.0.file, SeekFrom::Data(start)) != Ok(start) {
                self.0.presence.remove(granule);
                are_kept = false;
            }
        }
        are_kept
    }

    /// Writes whole granules, if there is room: those that are here only if it `replaces` them.
    pub(crate) fn keep(&self, bytes: &[u8], offset: u64, replaces: bool) {
        let end = offset + bytes.len() as u64;
        let is_written = |granule: &u64| replaces || !self.is_known(*granule);
        let mut written = granules(&(offset..end)).filter(is_written).peekable();
        while let Some(first) = written.next() {
            let mut next = first + 1;
            while written.next_if_eq(&next).is_some() {
                next += 1;
            }
            let run = first * GRANULE..end.min(next * GRANULE);
            let bytes = &bytes[(run.start - offset) as usize..(run.end - offset) as usize];
            if let Err(error) = self.put(&run, || self.0.file.write_all_at(bytes, run.start)) {
                self.0.failed("writing the cache", &error);
                self.0.cache.rest();
            }
        }
    }

    /// Takes the whole granules of these bytes over from another object, where the bytes are from `at` on, if there is room. They share
    /// what they have on disk where the file system can. Nothing is verified.
    pub fn take_over(&self, bytes: &Range<u64>, from: &Self, at: u64) {
        let whole = whole_granules(bytes, self.length());
        if whole.is_empty() {
            return;
        }
        let copied = self.put(&whole, || {
            let (mut start, mut at) = (whole.start, at + (whole.start - bytes.start));
            while start < whole.end {
                let len = (whole.end - start) as usize;
                let (from, to) = (&from.0.file, &self.0.file);
                if copy_file_range(from, Some(&mut at), to, Some(&mut start), len)? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Ok(())
        });
        // Where it cannot be copied so, it is written as it is read.
        drop(copied);
    }

    /// Puts whole granules here by `write`, if there is room.
    fn put(&self, bytes: &Range<u64>, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        debug_assert!(
            bytes.start.is_multiple_of(GRANULE),
            "part of a granule would count as all of it"
        );
        let (inner, len) = (&*self.0, bytes.end - bytes.start);
        if !inner.is_writable || !inner.cache.reserve(len) {
            return Ok(());
        }
        write().inspect_err(|_| {
            // A part may have been written.
            let _ = punch(&inner.file, bytes.start, len);
        })?;
        inner.cache.counters.written.fetch_add(len, Relaxed);
        granules(bytes).for_each(|granule| inner.presence.insert(granule, &inner.file));
        Ok(())
    }
}

impl Inner {
    pub(crate) fn new(cache: &Arc<Shared>, file: File, is_writable: bool) -> Self {
        Self {
            cache: cache.clone(),
            file,
            is_writable,
            presence: Presence::default(),
            hand: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Evicts data from where this ended the last time, in granules, until `needed` bytes are free or there is no more.
    /// Granules that were used since then are left, but not the second time.
    pub(crate) fn evict(&self, needed: u64) -> io::Result<u64> {
        let mut freed = 0;
        let mut turns = 0;
        // From the hand to the end, all of it twice, and then from the beginning to the hand.
        while freed < needed && turns < 3 {
            let hand = self.hand.load(Relaxed);
            let Ok(data) = seek(&self.file, SeekFrom::Data(hand)) else {
                self.hand.store(0, Relaxed);
                turns += 1;
                continue;
            };
            let granule = data / GRANULE;
            self.hand.store((granule + 1) * GRANULE, Relaxed);
            if turns < 2 && self.presence.take_used(granule) {
                continue;
            }
            self.presence.remove(granule);
            punch(&self.file, granule * GRANULE, GRANULE)?;
            freed += GRANULE;
        }
        Ok(freed)
    }

    /// Counts a failure, and logs the first.
    fn failed(&self, what: &str, error: &io::Error) {
        self.cache.counters.failures.fetch_add(1, Relaxed);
        if !self.has_failed.swap(true, Relaxed) {
            tracing::warn!(%error, "{what}");
        }
    }
}

impl Fetch for Object {
    fn length(&self) -> u64 {
        self.known_size().unwrap_or(0)
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, _: Ask<'_>) -> Result<Given, ReadError> {
        let len = buf.len();
        check_range(offset, len, self.length())?;
        let read = self.read_kept(buf, offset).and_then(|is_kept| {
            let missing = || io::Error::other("it is not kept");
            is_kept.then(Given::default).ok_or_else(missing)
        });
        read.map_err(ReadError::io(offset, len))
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        stream_in_pieces(self, range, take)
    }

    fn hint(&self, _: Range<u64>, _: Hint) {}

    fn distrust(&self, range: Range<u64>, _: &Given) -> u32 {
        self.reject(range);
        // There is no other copy here.
        0
    }

    fn mend(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Makes a range of a file a hole.
pub(crate) fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, flags, offset, len)?)
}

/// Opens a file and locks it, so that nobody removes it.
fn open_locked(cache: &Shared, name: &str, creates: bool) -> Result<File, CacheError> {
    let mut last = rustix::io::Errno::AGAIN;
    for _ in 0..ATTEMPTS {
        let file = cache.directory.open_file(name, creates)?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) if cache.directory.is_named(name, &file) => return Ok(file),
            Ok(()) => {}
            Err(errno) => last = errno,
        }
        std::thread::yield_now();
    }
    Err(cache.directory.failed(name, last))
}
