//! Data of which some blocks are in older content, too.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    ops::Range,
    sync::{Arc, LazyLock},
    thread,
    time::Duration,
};

use verimount_source::{
    Ask, Fetch, GRANULE, Given, Hint, LARGEST_STEP, ReadError, check_range, granules,
    stream_in_pieces,
};
use verimount_sync::{Condvar, Mutex};
use verimount_verity::{BlockHasher, Error, Seal, VerifiedReader, VerifyOptions};

use super::{
    old::{Olds, Part},
    runs::Runs,
};

/// How much of the tree is kept to find digests in, in bytes: what verifies keeps its own.
const TREE_CACHE: usize = 1 << 20;

/// The unit for which it is decided which missing blocks are asked for together, in bytes: requests do not cross its multiples. It is
/// decided from all of it, and so the same for each reader of a part.
const UNIT: u64 = LARGEST_STEP;

/// For how many units that is known: those of readers in order, and of some others.
const KNOWN_UNITS: usize = 4;

/// After so many wrong blocks, older content is not used any longer.
const MOST_WRONG: usize = 1 << 16;

/// How much of an announced range is looked at, in bytes: more than is announced at a time.
const LOOKED_AT: u64 = 64 << 20;

/// How many announced ranges may wait to be looked at; further ones are not.
const WAITING: usize = 16;

/// How long the thread that looks at them waits for the next one.
const LINGER: Duration = Duration::from_millis(100);

/// Data of which some blocks are in older content, too, and are read from there. Whoever reads must verify it: nothing is
/// compared here, and what is found to be wrong is then read from the data's own source.
pub(crate) struct Like {
    shared: Arc<Shared>,
}

struct Shared {
    data: Arc<dyn Fetch>,
    /// What knows the digests of its blocks. They are verified: a server that has a block left out by a digest that it chose would
    /// learn what is here.
    digests: VerifiedReader,
    /// Found when something is read first.
    olds: LazyLock<Olds, Box<dyn FnOnce() -> Olds + Send>>,
    wrong: Mutex<Wrong>,
    /// The runs of blocks that are asked for, by unit: the last one at the end.
    units: Mutex<VecDeque<(u64, Arc<Runs>)>>,
    announced: Mutex<Announced>,
    was_announced: Condvar,
}

/// Ranges that a thread looks at: finding out which blocks are here may take as long as reading the tree.
#[derive(Default)]
struct Announced {
    waiting: VecDeque<Range<u64>>,
    has_thread: bool,
}

/// Which blocks are not read from older content, although it should have them.
#[derive(Debug, Default)]
struct Wrong {
    blocks: BTreeSet<u64>,
    is_all: bool,
}

impl Like {
    /// The data of a seal that was accepted. `olds` gives what has some of its blocks, too, made with the same function, when
    /// something is read first.
    ///
    /// # Errors
    /// As [`VerifiedReader::new`].
    pub(crate) fn new(
        seal: Seal,
        olds: impl FnOnce(&BlockHasher) -> Olds + Send + 'static,
    ) -> Result<Self, Error> {
        let data = seal.data_unverified().clone();
        let options = VerifyOptions {
            cache_bytes: TREE_CACHE,
            ..VerifyOptions::default()
        };
        let digests = VerifiedReader::new(seal, options)?;
        let function = digests.leaf_function().clone();
        Ok(Self {
            shared: Arc::new(Shared {
                data,
                digests,
                olds: LazyLock::new(Box::new(move || olds(&function))),
                wrong: Mutex::default(),
                units: Mutex::default(),
                announced: Mutex::default(),
                was_announced: Condvar::new(),
            }),
        })
    }

    /// Has a thread look at a range. Nothing is lost but time if it is busy.
    fn announce(&self, range: Range<u64>) {
        let mut announced = self.shared.announced.lock();
        if announced.waiting.len() == WAITING {
            return;
        }
        announced.waiting.push_back(range);
        if announced.has_thread {
            self.shared.was_announced.notify_one();
            return;
        }
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name("like".to_owned());
        announced.has_thread = thread.spawn(move || shared.look_at_announced()).is_ok();
    }
}

impl Shared {
    fn block_size(&self) -> u64 {
        self.digests.leaf_function().block_size() as u64
    }

    /// The blocks that a range of bytes overlaps.
    fn covering(&self, bytes: &Range<u64>) -> Range<u64> {
        bytes.start / self.block_size()..bytes.end.div_ceil(self.block_size())
    }

    /// The bytes of blocks that are in a range.
    fn bytes_of(&self, blocks: &Range<u64>, within: &Range<u64>) -> Range<u64> {
        let start = (blocks.start * self.block_size()).max(within.start);
        start..(blocks.end * self.block_size()).min(within.end)
    }

    /// Where blocks are; `None` if the tree cannot be read.
    fn parts(&self, blocks: Range<u64>) -> Option<Vec<Part>> {
        if self.wrong.lock().is_all {
            return Some(vec![Part { blocks, old: None }]);
        }
        let digests = self.digests.leaves(blocks.clone()).ok()?;
        // Not locked while the index is read.
        let wrong: Vec<u64> = self
            .wrong
            .lock()
            .blocks
            .range(blocks.clone())
            .copied()
            .collect();
        let is_wanted = |block| wrong.binary_search(&block).is_err();
        Some(self.olds.find(blocks, &digests, is_wanted))
    }

    /// Looks at announced ranges until there have been none for a while: many contents may be open that nobody reads.
    fn look_at_announced(&self) {
        loop {
            let announced = self.announced.lock();
            let is_none = |announced: &mut Announced| announced.waiting.is_empty();
            let mut announced = self
                .was_announced
                .wait_timeout_while(announced, LINGER, is_none);
            let Some(range) = announced.waiting.pop_front() else {
                announced.has_thread = false;
                return;
            };
            drop(announced);
            self.look_at(&range);
        }
    }

    /// Gives the data's own source a hint for what has to come from there.
    fn look_at(&self, bytes: &Range<u64>) {
        for unit in bytes.start / UNIT..bytes.end.div_ceil(UNIT) {
            let Some(runs) = self.asked_for(unit) else {
                continue;
            };
            for run in runs.iter().map(|blocks| self.bytes_of(&blocks, bytes)) {
                if run.start < run.end {
                    self.data.hint(run, Hint::Alone);
                }
            }
        }
    }

    /// The runs of blocks of a unit that are asked for together; `None` if the tree cannot be read.
    fn asked_for(&self, unit: u64) -> Option<Arc<Runs>> {
        let is_it = |known: &&(u64, _)| known.0 == unit;
        if let Some((_, runs)) = self.units.lock().iter().find(is_it) {
            return Some(runs.clone());
        }
        let end = ((unit + 1) * UNIT).min(self.data.length());
        let blocks = self.covering(&(unit * UNIT..end));
        let digest_size = self.digests.leaf_function().digest_size() as u64;
        let tree_size = (blocks.end - blocks.start) * digest_size;
        let parts = self.parts(blocks)?.into_iter();
        let missing = parts.filter(|part| part.old.is_none());
        let mut runs = Runs::default();
        runs.extend(missing.map(|part| part.blocks));
        let runs = Arc::new(runs.asked_for_within(self.block_size(), tree_size));
        let mut units = self.units.lock();
        if units.len() == KNOWN_UNITS {
            units.pop_front();
        }
        units.push_back((unit, runs.clone()));
        Some(runs)
    }

    fn fetch(&self, buf: &mut [u8], bytes: Range<u64>, ask: Ask<'_>) -> Result<Given, ReadError> {
        let Some(parts) = self.parts(self.covering(&bytes)) else {
            return self.data.fetch(buf, bytes.start, ask);
        };
        if parts.iter().any(|part| part.old.is_none()) {
            // What is far is on its way while the rest is read. Near it is asked for what is missing, too, and no more.
            let near = granules(&bytes);
            let end = (near.end * GRANULE).min(self.data.length());
            self.look_at(&(near.start * GRANULE..end));
        }
        let (mut given, mut rest) = (Given::default(), buf);
        for part in parts {
            let here = self.bytes_of(&part.blocks, &bytes);
            let (now, later) = rest.split_at_mut((here.end - here.start) as usize);
            rest = later;
            let offset = here.start - part.blocks.start * self.block_size();
            match part.old {
                Some(old) if self.olds.read(old, offset, now).is_ok() => {
                    self.olds.take_over(old, offset, &here);
                }
                _ => given.add(self.data.fetch(now, here.start, ask)?),
            }
        }
        Ok(given)
    }

    /// From now on, these blocks come from the data's own source. Whether some may have come from older content.
    fn distrust_older(&self, blocks: Range<u64>) -> bool {
        let parts = self.parts(blocks).into_iter().flatten();
        let older = parts.filter(|part| part.old.is_some());
        let mut older = older.flat_map(|part| part.blocks).peekable();
        let is_any = older.peek().is_some();
        let mut wrong = self.wrong.lock();
        let left = MOST_WRONG.saturating_sub(wrong.blocks.len());
        wrong.blocks.extend(older.take(left));
        if wrong.blocks.len() == MOST_WRONG {
            *wrong = Wrong {
                blocks: BTreeSet::new(),
                is_all: true,
            };
        }
        drop(wrong);
        if is_any {
            self.units.lock().clear();
        }
        is_any
    }

    /// Whether older content had some of these blocks wrong.
    fn were_wrong(&self, blocks: Range<u64>) -> bool {
        let wrong = self.wrong.lock();
        wrong.is_all || wrong.blocks.range(blocks).next().is_some()
    }
}

impl Fetch for Like {
    fn length(&self) -> u64 {
        self.shared.data.length()
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        check_range(offset, buf.len(), self.length())?;
        if buf.is_empty() {
            Ok(Given::default())
        } else {
            let bytes = offset..offset + buf.len() as u64;
            self.shared.fetch(buf, bytes, ask)
        }
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        stream_in_pieces(self, range, take)
    }

    fn hint(&self, range: Range<u64>, _: Hint) {
        let most = range.start.saturating_add(LOOKED_AT);
        let end = range.end.min(most).min(self.length());
        if range.start < end {
            self.announce(range.start..end);
        }
    }

    fn distrust(&self, range: Range<u64>, given: &Given) -> u32 {
        let end = range.end.min(self.length());
        let blocks = self.shared.covering(&(range.start..end));
        // What the source has is not to blame for what older content has.
        if self.shared.distrust_older(blocks.clone()) {
            return u32::MAX;
        }
        // Another reader of the same bytes of older content may have said so first.
        let were_wrong = u32::from(self.shared.were_wrong(blocks));
        self.shared.data.distrust(range, given).max(were_wrong)
    }

    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()> {
        self.shared.data.mend(right, offset)
    }
}
