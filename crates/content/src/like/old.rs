use std::{
    fmt, io,
    ops::Range,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use verimount_source::{Ask, Fetch, ReadError};
use verimount_sync::Mutex;
use verimount_verity::{BlockHasher, Leaves};

use super::index::{Builder, Index};
use crate::{
    Error, Location, Options, accepted::Accepted, fault::Fault, place::Place,
    seal_search::find_hash_area,
};

/// How many digests are read at a time.
const READ: usize = 1 << 14;

/// How long older content may take to be read: what is not read by then is fetched.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long older content is left alone that has taken longer, and could not be read.
const REST: Duration = Duration::from_secs(30);

/// Older content from which not everything is used, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unshared {
    /// Where it is.
    pub location: Location,
    /// Why not everything of it is used.
    pub reason: UnsharedReason,
}

/// Why nothing, or not everything, of older content is used.
#[derive(Debug)]
#[non_exhaustive]
pub enum UnsharedReason {
    /// Its tree is made with another hash, block size or salt, so that equal blocks have other digests.
    OtherFunction,
    /// It cannot be opened or has no seal, its tree cannot be read, or there is no room for what it says.
    Unusable(Error),
    /// Its tree cannot be read to the end, or there is no room for all of it: what is known so far is used.
    UsablePartly(Error),
}

impl fmt::Display for Unshared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            UnsharedReason::OtherFunction => write!(
                f,
                "nothing is shared with {}: its Merkle tree is made with another hash, block size or salt",
                self.location
            ),
            UnsharedReason::Unusable(error) => {
                write!(f, "nothing is shared with {}: {error}", self.location)
            }
            UnsharedReason::UsablePartly(error) => {
                write!(f, "only a part of {} is shared: {error}", self.location)
            }
        }
    }
}

/// The blocks of older contents, whose trees are made with the same function.
pub struct Olds {
    function: BlockHasher,
    contents: Vec<Old>,
    index: Index,
}

/// Older content.
struct Old {
    /// The number of its first block, counted over all contents.
    first: u64,
    data: Arc<dyn Fetch>,
    take_over: Option<TakeOver>,
    /// Until when it is left alone.
    rests: Mutex<Option<Instant>>,
}

/// Has a copy of new content take these bytes over from older content, where they are from an offset on.
pub(crate) type TakeOver = Box<dyn Fn(&Range<u64>, u64) + Send + Sync>;

/// The number of a block, counted over all older contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldBlock(u64);

/// Adjacent blocks of new content, and where the first of them is in older content, if all are there in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The blocks of new content.
    pub blocks: Range<u64>,
    /// Where the first of them is.
    pub old: Option<OldBlock>,
}

/// Puts older contents together.
pub(crate) struct Gathering<'a> {
    function: BlockHasher,
    contents: Vec<Old>,
    builder: Builder<'a>,
    /// The number of the first block of the next content.
    next: u64,
}

/// Why blocks cannot be found.
pub(crate) enum IndexError {
    /// Their digests cannot be read.
    Tree(ReadError),
    /// There is no room for them.
    Room(io::Error),
}

impl<'a> Gathering<'a> {
    /// None yet. The digests of all must be made with `function`. An index that has no room in memory is stored in `folder`.
    pub(crate) fn new(function: BlockHasher, folder: &'a Path) -> Self {
        Self {
            function,
            contents: Vec::new(),
            builder: Builder::new(folder),
            next: 0,
        }
    }

    /// Adds content, of which some ranges of blocks are there, and perhaps how a copy of new content takes them over. Nothing of it is
    /// verified: what is read of it is compared with the digests of new content.
    ///
    /// # Errors
    /// That of the first range that cannot be indexed. The others are.
    pub(crate) fn add(
        &mut self,
        leaves: &Leaves,
        data: Arc<dyn Fetch>,
        take_over: Option<TakeOver>,
        there: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<(), IndexError> {
        debug_assert_eq!(*leaves.function(), self.function);
        let first = self.next;
        self.contents.push(Old {
            first,
            data,
            take_over,
            rests: Mutex::default(),
        });
        // With a number between them, so that no run of blocks is in two.
        self.next += leaves.count() + 1;
        let mut indexed = Ok(());
        for blocks in there {
            indexed = indexed.and(self.index(leaves, blocks, first));
        }
        indexed
    }

    /// Adds all of what is at a location.
    fn open(&mut self, location: &Location, options: &Options) -> Result<(), UnsharedReason> {
        let (leaves, data) = find(location, options).map_err(UnsharedReason::Unusable)?;
        if *leaves.function() != self.function {
            return Err(UnsharedReason::OtherFunction);
        }
        let (all, before) = (0..leaves.count(), self.builder.count());
        let Err(error) = self.add(&leaves, data, None, [all]) else {
            return Ok(());
        };
        let error = match error {
            IndexError::Tree(error) => Fault::read(location, error),
            IndexError::Room(error) => Fault::io(self.builder.folder(), error),
        };
        Err(if self.builder.count() > before {
            UnsharedReason::UsablePartly(error)
        } else {
            UnsharedReason::Unusable(error)
        })
    }

    /// Adds the digests of blocks of content whose first block has the number `first`.
    fn index(&mut self, leaves: &Leaves, blocks: Range<u64>, first: u64) -> Result<(), IndexError> {
        // A sparse file can claim any size.
        let end = blocks.end.min(leaves.count());
        let end = end.min(blocks.start.saturating_add(self.builder.room()));
        for start in (blocks.start..end).step_by(READ) {
            let part = start..end.min(start + READ as u64);
            let digests = leaves.read(part.clone()).map_err(IndexError::Tree)?;
            let digests = digests.chunks_exact(self.function.digest_size());
            for (digest, block) in digests.zip(part) {
                let added = self.builder.add(digest, first + block);
                added.map_err(IndexError::Room)?;
            }
        }
        Ok(())
    }

    /// All that was added, or why nothing of it is found.
    pub(crate) fn finish(self) -> (Olds, Option<io::Error>) {
        let (index, failed) = match self.builder.finish() {
            Ok(index) => (index, None),
            Err(error) => (Index::default(), Some(error)),
        };
        let olds = Olds {
            index,
            function: self.function,
            contents: self.contents,
        };
        (olds, failed)
    }
}

impl Olds {
    /// Opens what is at `locations`.
    pub fn open(
        locations: &[Location],
        function: &BlockHasher,
        options: &Options,
        folder: &Path,
    ) -> (Self, Vec<Unshared>) {
        let (mut used, mut unshared) = (Vec::new(), Vec::new());
        let mut gathering = Gathering::new(function.clone(), folder);
        for location in locations {
            match gathering.open(location, options) {
                Ok(()) => used.push(location),
                Err(reason) => {
                    if matches!(reason, UnsharedReason::UsablePartly(_)) {
                        used.push(location);
                    }
                    unshared.push((location, reason));
                }
            }
        }
        let (olds, failed) = gathering.finish();
        if let Some(error) = failed {
            let again = || Fault::io(folder, io::Error::new(error.kind(), error.to_string()));
            // Neither the parts.
            unshared.retain(|(_, reason)| !matches!(reason, UnsharedReason::UsablePartly(_)));
            let used = used.into_iter();
            unshared.extend(used.map(|location| (location, UnsharedReason::Unusable(again()))));
        }
        let unshared = unshared.into_iter().map(|(location, reason)| Unshared {
            location: location.clone(),
            reason,
        });
        (olds, unshared.collect())
    }

    /// What the digests are made with.
    pub fn function(&self) -> &BlockHasher {
        &self.function
    }

    /// Where blocks may be that have these digests, one after the other, and are to be looked for.
    pub fn find(
        &self,
        blocks: Range<u64>,
        digests: &[u8],
        is_wanted: impl Fn(u64) -> bool,
    ) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut next = None;
        let digests = digests.chunks_exact(self.function.digest_size());
        for (block, digest) in blocks.zip(digests) {
            let old = if is_wanted(block) {
                self.index.find(digest).map(OldBlock)
            } else {
                None
            };
            match parts.last_mut() {
                Some(last) if old == next => last.blocks.end = block + 1,
                _ => parts.push(Part {
                    blocks: block..block + 1,
                    old,
                }),
            }
            next = old.map(|OldBlock(number)| OldBlock(number + 1));
        }
        parts
    }

    /// The content with a block, and where that is in it.
    fn place(&self, at: OldBlock) -> Option<(&Old, u64)> {
        let number = self.contents.partition_point(|old| old.first <= at.0);
        let old = &self.contents[number.checked_sub(1)?];
        Some((old, (at.0 - old.first) * self.function.block_size() as u64))
    }

    /// Has the copy of new content take over these bytes of it, which are from an offset in a block on.
    pub(crate) fn take_over(&self, at: OldBlock, offset: u64, bytes: &Range<u64>) {
        if let Some((old, start)) = self.place(at)
            && let Some(take_over) = &old.take_over
        {
            take_over(bytes, start + offset);
        }
    }

    /// Reads bytes from an offset in a block on, over the next ones, too. After the end of the data there are zeros.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&self, at: OldBlock, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let Some((old, start)) = self.place(at) else {
            return Err(ReadError::PastEnd {
                offset,
                len: buf.len(),
                size: 0,
            });
        };
        let start = start + offset;
        let stored = old
            .data
            .length()
            .saturating_sub(start)
            .min(buf.len() as u64);
        let (stored, beyond) = buf.split_at_mut(stored as usize);
        old.read(stored, start)?;
        beyond.fill(0);
        Ok(())
    }
}

impl Old {
    /// Reads it, unless that took too long and failed a short time before.
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let begun = Instant::now();
        if self.rests.lock().is_some_and(|until| begun < until) {
            return Err(ReadError::io(offset, buf.len())(
                io::ErrorKind::TimedOut.into(),
            ));
        }
        let ask = Ask::within(Some(PATIENCE));
        let read = self.data.fetch(buf, offset, ask).map(drop);
        if read.is_err() && begun.elapsed() >= PATIENCE {
            *self.rests.lock() = Some(Instant::now() + REST);
        }
        read
    }
}

/// The digests and the data of what is at `location`, with a seal in either format that is not compared with anything.
fn find(location: &Location, options: &Options) -> Result<(Leaves, Arc<dyn Fetch>), Error> {
    let place = Place::new(location.clone(), &options.clone().without_places());
    let (source, _) = place.content()?;
    match Accepted::OwnSeal.find(&place, source.clone()) {
        Ok(seal) => Ok((seal.leaves_unverified(), seal.data_unverified().clone())),
        // That of a tree of dm-verity is known to its users only.
        Err(error) => match find_hash_area(&place, source) {
            Ok(area) => Ok((area.leaves_unverified(), area.data_unverified().clone())),
            Err(_) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
        thread,
    };

    use verimount_source::{Given, Hint};

    use super::*;

    /// What is read in vain, and how often.
    #[derive(Default)]
    struct Silent(AtomicUsize);

    impl Fetch for Silent {
        fn length(&self) -> u64 {
            1000
        }

        fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
            self.0.fetch_add(1, SeqCst);
            thread::sleep(ask.patience.unwrap());
            Err(ReadError::io(offset, buf.len())(
                io::ErrorKind::TimedOut.into(),
            ))
        }

        fn stream(&self, _: Range<u64>, _: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
            unreachable!("old content is read in parts")
        }

        fn hint(&self, _: Range<u64>, _: Hint) {}

        fn distrust(&self, _: Range<u64>, _: &Given) -> u32 {
            0
        }

        fn mend(&self, _: &[u8], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn what_says_nothing_is_waited_for_once() {
        let silent = Arc::new(Silent::default());
        let old = Old {
            first: 0,
            data: silent.clone(),
            take_over: None,
            rests: Mutex::default(),
        };
        for _ in 0..100 {
            assert!(old.read(&mut [0; 10], 0).is_err());
        }
        assert_eq!(silent.0.load(SeqCst), 1);
    }
}
