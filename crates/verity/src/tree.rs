//! Reads a stored Merkle tree: fetches all blocks that a read needs together, verifies them from
//! the root down, and keeps them in a bounded cache.

use std::{
    collections::{HashMap, HashSet},
    ops::RangeInclusive,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use quick_cache::sync::Cache;
use verimount_source::{Counting, ReadAt, ReadCounts, ReadError};

use crate::{
    Digest, Mismatch, Place, TreeGeometry, TreeReadahead, hasher::BlockHasher, params::Hashing,
};

/// Read-around: how many bytes of the tree a random reader fetches at once. Storage reads them in
/// hardly more time than one block, and hashing them takes less time than another request.
const NEIGHBOURHOOD: usize = 64 << 10;

/// Identifies a tree block, by level and index in the level.
type Key = (usize, u64);
type Node = Arc<[u8]>;

/// Reads and verifies the blocks of a stored tree.
pub(crate) struct TreeReader {
    source: Counting<Arc<dyn ReadAt>>,
    geometry: TreeGeometry,
    root: Digest,
    hasher: BlockHasher,
    verified: Cache<Key, Node>,
    /// The most blocks of level 0 that are read ahead.
    window: u64,
    claims: Claims,
}

/// A run of adjacent blocks of one level that a fetch reads with one request.
#[derive(Debug, Clone)]
struct Run {
    level: usize,
    nodes: RangeInclusive<u64>,
}

/// The level-0 blocks that a read needs, after the cache lookup.
pub(crate) enum Pending<'a> {
    /// All of it was in the cache.
    Ready(Vec<Node>),
    /// This reader fetches it.
    Fetch(Fetch<'a>),
    /// Another reader is fetching some of it.
    Wait(&'a TreeReader, RangeInclusive<u64>),
}

/// An in-flight fetch of blocks by one reader; others that need these blocks wait for it.
pub(crate) struct Fetch<'a> {
    tree: &'a TreeReader,
    needed: RangeInclusive<u64>,
    /// Verified blocks, from the cache or fetched.
    at_hand: HashMap<Key, Node>,
    /// Lowest level first.
    runs: Vec<Run>,
    _claim: Claim<'a>,
}

impl TreeReader {
    pub(crate) fn new(
        source: Arc<dyn ReadAt>,
        hashing: &Hashing,
        geometry: TreeGeometry,
        root: Digest,
        readahead: TreeReadahead,
        cache_bytes: usize,
    ) -> Self {
        let hasher = hashing.tree_hasher();
        let block_size = hasher.block_size();
        let data_per_node = geometry.digests_per_block() << hashing.data_block_log2;
        let cached_blocks = cache_bytes / block_size;
        let window = readahead.blocks(data_per_node, block_size as u64);
        Self {
            source: Counting::new(source),
            root,
            verified: Cache::new(cached_blocks),
            // A window too large for the cache would evict blocks before they are used.
            window: window.min(cached_blocks as u64 / 4).max(1),
            claims: Claims::default(),
            geometry,
            hasher,
        }
    }

    pub(crate) fn will_need_upper_levels(&self) {
        if self.geometry.levels() > 0 {
            // The lowest level is stored last.
            self.source.will_need(0, self.geometry.node_offset(0, 0));
        }
    }

    pub(crate) fn counts(&self) -> ReadCounts {
        self.source.counts()
    }

    /// Looks up the level-0 blocks `needed`. The storage gets a hint for missing blocks, so that it
    /// can read them while the caller reads the data. If reading is `sequential`, the blocks for
    /// the next reads are included.
    pub(crate) fn request(&self, needed: RangeInclusive<u64>, sequential: bool) -> Pending<'_> {
        let read_ahead = sequential && self.window > 1;
        let [near, soon] = match read_ahead {
            true => [8, 4].map(|part| self.ahead(&needed, part)),
            false => [*needed.end(); 2],
        };
        if self.is_verified(near)
            && let (nodes, None) = self.cached(0, &needed)
        {
            if !self.is_verified(soon) {
                self.announce(&needed, soon);
            }
            return Pending::Ready(in_order(&needed, &nodes));
        }
        let mut claims = self.claims.lock();
        // Again under the lock: another reader may have fetched them all in the meantime.
        let (at_hand, missing) = self.cached(0, &needed);
        let wanted = match missing {
            Some(missing) if claims.iter().any(|claimed| overlap(claimed, &missing)) => {
                return Pending::Wait(self, needed);
            }
            Some(missing) => self.extended(missing, read_ahead, &claims),
            None => match self.first_unknown(needed.end() + 1..=near, &claims) {
                Some(next) => self.extended(next..=next, read_ahead, &claims),
                None => return Pending::Ready(in_order(&needed, &at_hand)),
            },
        };
        claims.push(wanted.clone());
        drop(claims);
        let claim = Claim {
            claims: &self.claims,
            nodes: wanted.clone(),
        };
        Pending::Fetch(Fetch::new(self, needed, at_hand, wanted, claim))
    }

    /// The last block of those ahead of a sequential reader: a part of a window. What is an eighth of it ahead is fetched,
    /// early enough even for reads that overtake others. What is a quarter ahead, the storage should have begun to read.
    fn ahead(&self, needed: &RangeInclusive<u64>, part: u64) -> u64 {
        let last = self.geometry.level_blocks(0) - 1;
        last.min(needed.end() + self.window.div_ceil(part))
    }

    /// Gives the storage a hint for the window that begins with the blocks up to `soon`, so that nobody waits for it later.
    /// Only the first of the reads of this size that see it does so.
    fn announce(&self, needed: &RangeInclusive<u64>, soon: u64) {
        let seen_before = soon.saturating_sub(needed.end() - needed.start() + 1);
        if self.is_verified(seen_before)
            && let Some(next) = self.first_unknown(seen_before + 1..=soon, &Ranges::new())
        {
            let window = self.extended(next..=next, true, &Ranges::new());
            let (offset, len) = self.extent(0, &window);
            self.source.will_need(offset, len as u64);
        }
    }

    /// Blocks of a level that are in the cache, and the smallest range that holds all others.
    fn cached(
        &self,
        level: usize,
        nodes: &RangeInclusive<u64>,
    ) -> (HashMap<Key, Node>, Option<RangeInclusive<u64>>) {
        let mut found = HashMap::new();
        let mut missing: Option<RangeInclusive<u64>> = None;
        for index in nodes.clone() {
            match self.verified.get(&(level, index)) {
                Some(node) => drop(found.insert((level, index), node)),
                None => missing = Some(missing.map_or(index, |range| *range.start())..=index),
            }
        }
        (found, missing)
    }

    fn first_unknown(&self, mut nodes: RangeInclusive<u64>, claims: &Ranges) -> Option<u64> {
        nodes.find(|&node| !self.is_known(node, claims))
    }

    /// Whether a level-0 block is in the cache or in flight.
    fn is_known(&self, node: u64, claims: &Ranges) -> bool {
        self.is_verified(node) || is_claimed(node, claims)
    }

    /// Whether a level-0 block is in the cache.
    fn is_verified(&self, node: u64) -> bool {
        self.verified.contains_key(&(0, node))
    }

    /// Extends a range of blocks to be fetched: by a window ahead, if reading is sequential or
    /// begins at the start; else by the blocks around it, which need no further request and may
    /// save later ones.
    fn extended(
        &self,
        wanted: RangeInclusive<u64>,
        read_ahead: bool,
        claims: &Ranges,
    ) -> RangeInclusive<u64> {
        let (first, last) = wanted.into_inner();
        let end = match (read_ahead, first) {
            (true, _) => first + self.window,
            // A reader of the first bytes may need no more than these.
            (false, 0) => self.window.div_ceil(4),
            (false, _) => (first + 1).next_multiple_of(self.neighbours()),
        };
        // A window that ends with a block of the level above needs only that one block of it.
        let siblings_end = (first + 1).next_multiple_of(self.geometry.digests_per_block());
        let end = end.min(siblings_end).min(self.geometry.level_blocks(0));
        // Stop before blocks that others fetch, and omit known blocks at the end.
        let mut ahead = last + 1..end;
        let end = ahead
            .clone()
            .find(|&node| is_claimed(node, claims))
            .unwrap_or(end);
        ahead.end = end;
        let ahead = ahead.rev().find(|&node| !self.is_known(node, claims));
        let behind = match read_ahead {
            true => first..first,
            false => first - first % self.neighbours()..first,
        };
        let behind = behind
            .rev()
            .take_while(|&node| !self.is_known(node, claims));
        behind.last().unwrap_or(first)..=ahead.unwrap_or(last)
    }

    /// How many blocks a random reader fetches at once.
    fn neighbours(&self) -> u64 {
        let blocks = (NEIGHBOURHOOD / self.hasher.block_size()) as u64;
        blocks.clamp(1, self.window)
    }

    /// Offset and length of adjacent blocks of a level in the stored tree.
    fn extent(&self, level: usize, nodes: &RangeInclusive<u64>) -> (u64, usize) {
        let count = nodes.end() - nodes.start() + 1;
        let offset = self.geometry.node_offset(level, *nodes.start());
        (offset, count as usize * self.hasher.block_size())
    }

    /// The expected digest of a block, from its verified parent; `None` if that is missing.
    fn expected<'n>(&'n self, key: Key, at_hand: &'n HashMap<Key, Node>) -> Option<&'n [u8]> {
        let (level, index) = key;
        if level + 1 == self.geometry.levels() {
            return Some(self.root.as_bytes());
        }
        let (parent, place) = self.geometry.parent(index);
        at_hand.get(&(level + 1, parent)).map(|node| &node[place])
    }
}

impl<'a> Pending<'a> {
    /// Returns the needed blocks, all verified.
    pub(crate) fn complete(mut self) -> Result<Vec<Node>, ReadError> {
        loop {
            self = match self {
                Self::Ready(nodes) => return Ok(nodes),
                Self::Fetch(fetch) => return fetch.complete(),
                Self::Wait(tree, needed) => {
                    tree.claims.wait_for(&needed);
                    tree.request(needed, false)
                }
            }
        }
    }
}

impl<'a> Fetch<'a> {
    /// Plans to fetch `wanted` and all unverified blocks above, and gives the source a hint.
    fn new(
        tree: &'a TreeReader,
        needed: RangeInclusive<u64>,
        at_hand: HashMap<Key, Node>,
        wanted: RangeInclusive<u64>,
        claim: Claim<'a>,
    ) -> Self {
        let mut fetch = Self {
            tree,
            needed,
            at_hand,
            runs: Vec::new(),
            _claim: claim,
        };
        fetch.plan(wanted);
        for run in &fetch.runs {
            let (offset, len) = tree.extent(run.level, &run.nodes);
            tree.source.will_need(offset, len as u64);
        }
        fetch
    }

    fn plan(&mut self, wanted: RangeInclusive<u64>) {
        self.runs.clear();
        let mut run = Run {
            level: 0,
            nodes: wanted,
        };
        loop {
            let above = self.missing_parents(&run);
            self.runs.push(run);
            match above {
                Some(next) => run = next,
                None => return,
            }
        }
    }

    /// The run that holds all unverified parents of `run`; verified ones are added to `at_hand`.
    fn missing_parents(&mut self, run: &Run) -> Option<Run> {
        let level = run.level + 1;
        if level == self.tree.geometry.levels() {
            return None;
        }
        let first = self.tree.geometry.parent(*run.nodes.start()).0;
        let last = self.tree.geometry.parent(*run.nodes.end()).0;
        let (found, missing) = self.tree.cached(level, &(first..=last));
        self.at_hand.extend(found);
        missing.map(|nodes| Run { level, nodes })
    }

    fn complete(mut self) -> Result<Vec<Node>, ReadError> {
        let fetched = self.fetch();
        if self
            .needed
            .clone()
            .all(|index| self.at_hand.contains_key(&(0, index)))
        {
            // Errors in blocks that were only read ahead must not fail the read.
            return Ok(in_order(&self.needed, &self.at_hand));
        }
        let mut bad = match fetched {
            Ok(bad) => bad,
            Err(_) => {
                // Perhaps only read-ahead blocks cannot be read: retry without them.
                self.plan(self.needed.clone());
                self.fetch()?
            }
        };
        // A wrong block can hide that those below it are wrong, too.
        let mut distrusted = HashSet::new();
        while self.distrust(&bad, &mut distrusted) {
            self.plan(self.needed.clone());
            bad = self.fetch()?;
        }
        match self
            .needed
            .clone()
            .find(|&index| !self.at_hand.contains_key(&(0, index)))
        {
            Some(index) => Err(self.reason(index, bad)),
            None => Ok(in_order(&self.needed, &self.at_hand)),
        }
    }

    /// Tells the source of blocks that do not match, of each once; whether it may return others for some.
    fn distrust(&self, bad: &HashMap<Key, Mismatch>, told: &mut HashSet<Key>) -> bool {
        let block_size = self.tree.hasher.block_size() as u64;
        let mut is_any = false;
        for (key, mismatch) in bad {
            is_any |= told.insert(*key) && self.tree.source.distrust(mismatch.offset, block_size);
        }
        is_any
    }

    /// Reads and verifies all runs, the topmost first; returns the blocks that do not match.
    fn fetch(&mut self) -> Result<HashMap<Key, Mismatch>, ReadError> {
        let mut bad = HashMap::new();
        for run in std::mem::take(&mut self.runs).into_iter().rev() {
            self.fetch_run(&run, &mut bad)?;
        }
        Ok(bad)
    }

    fn fetch_run(&mut self, run: &Run, bad: &mut HashMap<Key, Mismatch>) -> Result<(), ReadError> {
        let tree = self.tree;
        let (offset, len) = tree.extent(run.level, &run.nodes);
        let mut blocks = vec![0; len];
        tree.source.read_exact_at(&mut blocks, offset)?;
        let digests = tree.hasher.hash_run(&blocks);
        let block_size = tree.hasher.block_size();
        let digest_size = tree.hasher.algorithm().digest_size();
        for ((index, block), actual) in run
            .nodes
            .clone()
            .zip(blocks.chunks_exact(block_size))
            .zip(digests.chunks_exact(digest_size))
        {
            let key = (run.level, index);
            // Without a verified parent this block cannot be verified; the parent is to blame.
            let Some(expected) = tree.expected(key, &self.at_hand) else {
                continue;
            };
            if expected == actual {
                let node = Node::from(block);
                tree.verified.insert(key, node.clone());
                self.at_hand.insert(key, node);
            } else {
                bad.insert(key, tree.mismatch(key, expected, actual));
            }
        }
        Ok(())
    }

    /// Why a level-0 block could not be verified: the first bad block on the way to the root.
    fn reason(&self, index: u64, mut bad: HashMap<Key, Mismatch>) -> ReadError {
        let mut key = (0, index);
        loop {
            if let Some(mismatch) = bad.remove(&key) {
                return ReadError::Rejected(Box::new(mismatch));
            }
            key = (key.0 + 1, self.tree.geometry.parent(key.1).0);
            assert!(
                key.0 < self.tree.geometry.levels(),
                "a block that is not verified has a bad ancestor"
            );
        }
    }
}

impl TreeReader {
    fn mismatch(&self, (level, index): Key, expected: &[u8], actual: &[u8]) -> Mismatch {
        Mismatch {
            place: Place::Tree(level),
            offset: self.geometry.node_offset(level, index),
            covers: self.geometry.covered_data(level, index),
            expected: self.hasher.digest(expected),
            actual: self.hasher.digest(actual),
        }
    }
}

/// Ranges of blocks of level 0.
type Ranges = Vec<RangeInclusive<u64>>;

/// The ranges that are being fetched.
#[derive(Default)]
struct Claims {
    nodes: Mutex<Ranges>,
    released: Condvar,
}

impl Claims {
    fn lock(&self) -> MutexGuard<'_, Ranges> {
        // Any list of ranges is a valid state, also after a panic.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when nobody is fetching any of `nodes`.
    fn wait_for(&self, nodes: &RangeInclusive<u64>) {
        let claimed = |claims: &mut Ranges| claims.iter().any(|claimed| overlap(claimed, nodes));
        drop(
            self.released
                .wait_while(self.lock(), claimed)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

/// One range of [`Claims`], until it is dropped.
struct Claim<'a> {
    claims: &'a Claims,
    nodes: RangeInclusive<u64>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claims = self.claims.lock();
        if let Some(own) = claims.iter().position(|claimed| *claimed == self.nodes) {
            claims.swap_remove(own);
        }
        drop(claims);
        self.claims.released.notify_all();
    }
}

fn overlap(a: &RangeInclusive<u64>, b: &RangeInclusive<u64>) -> bool {
    a.start() <= b.end() && b.start() <= a.end()
}

fn is_claimed(node: u64, claims: &Ranges) -> bool {
    claims.iter().any(|claimed| claimed.contains(&node))
}

/// The level-0 blocks `needed`, all of which are in `nodes`.
fn in_order(needed: &RangeInclusive<u64>, nodes: &HashMap<Key, Node>) -> Vec<Node> {
    needed
        .clone()
        .map(|index| nodes[&(0, index)].clone())
        .collect()
}
