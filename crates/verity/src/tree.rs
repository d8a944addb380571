//! Reads a stored Merkle tree: fetches all blocks that a read needs together, verifies them from
//! the root down, and keeps them in a bounded cache.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    ops::{Range, RangeInclusive},
    sync::Arc,
};

use quick_cache::sync::Cache;
use verimount_source::{Ask, Fetch, Given, Hint, ReadError};
use verimount_sync::{Condvar, Mutex};

use crate::{
    Account, BlockHasher, BlockKind, Digest, Mismatch, Releases, TreeGeometry, VerifyOptions,
    further::Further,
    params::Hashing,
    releases::{failure, suspect},
};

/// Read-around: how many bytes of the tree a random reader fetches at once. Storage reads them in
/// hardly more time than one block, and hashing them takes less time than another request.
const NEIGHBOURHOOD: usize = 64 << 10;

/// The largest window in bytes, so that a huge one cannot exhaust memory.
const MAX_WINDOW: usize = 2 << 20;

/// The most windows that are announced and not fetched: one for each sequential reader that is distinguished.
const MAX_ANNOUNCED: usize = 16;

/// Identifies a tree block, by level and index in the level.
type Key = (usize, u64);
type Node = Arc<[u8]>;

/// Reads and verifies the blocks of a stored tree.
pub(crate) struct TreeReader {
    source: Arc<dyn Fetch>,
    pub(crate) account: Arc<Account>,
    pub(crate) releases: Option<Arc<dyn Releases>>,
    pub(crate) geometry: TreeGeometry,
    pub(crate) root: Digest,
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
    Fetch(InFlight<'a>),
    /// Another reader is fetching some of it.
    Wait(&'a TreeReader, RangeInclusive<u64>),
}

/// An in-flight fetch of blocks by one reader; others that need these blocks wait for it.
pub(crate) struct InFlight<'a> {
    tree: &'a TreeReader,
    needed: RangeInclusive<u64>,
    /// Verified blocks, from the cache or fetched.
    at_hand: HashMap<Key, Node>,
    /// Lowest level first.
    runs: Vec<Run>,
    /// Who gave what was fetched.
    given: Given,
    _claim: Claim<'a>,
}

impl TreeReader {
    pub(crate) fn new(
        source: Arc<dyn Fetch>,
        hashing: &Hashing,
        geometry: TreeGeometry,
        root: Digest,
        options: VerifyOptions,
    ) -> Self {
        let hasher = hashing.tree_hasher();
        let block_size = hasher.block_size();
        let data_per_node = geometry.digests_per_block() << hashing.data_block_log2;
        let cached_blocks = options.cache_bytes / block_size;
        let window = options.tree_readahead / data_per_node;
        let window = window.min((MAX_WINDOW / block_size) as u64);
        Self {
            source,
            account: options.account,
            releases: options.releases,
            root,
            verified: Cache::new(cached_blocks),
            // A window too large for the cache would evict blocks before they are used.
            window: window.min(cached_blocks as u64 / 4).max(1),
            claims: Claims::default(),
            geometry,
            hasher,
        }
    }

    /// Gives the storage a hint for all levels but the lowest, which is stored last, and for the first window of that: an image
    /// is read from its beginning.
    pub(crate) fn will_need_beginning(&self) {
        if self.geometry.levels() > 0 {
            let blocks = self.window.min(self.geometry.level_blocks(0));
            let end = self.geometry.node_offset(0, blocks);
            self.source.hint(0..end, Hint::Need);
        }
    }

    /// Gives the storage a hint for windows with those of these level-0 blocks that are not here. A sequential reader will
    /// need them.
    pub(crate) fn will_reach(&self, nodes: RangeInclusive<u64>) {
        for window in self.announce(nodes) {
            let (offset, len) = self.extent(0, &window);
            self.source.hint(offset..offset + len as u64, Hint::Need);
        }
    }

    /// Windows of blocks that are not here and were not announced, which they are now.
    fn announce(&self, mut nodes: RangeInclusive<u64>) -> Vec<RangeInclusive<u64>> {
        let mut windows = Vec::new();
        // Windows of one block are no read-ahead.
        if self.window == 1 {
            return windows;
        }
        let mut claims = self.claims.claimed.lock();
        while let Some(first) =
            nodes.find(|&node| !claims.has_announced(node) && !self.is_known(node, &claims))
        {
            let end = self.siblings_end(first).min(first + self.window);
            let window = self.extended(first..=first, first..end, &claims);
            windows.push(window.clone());
            claims.announce(window);
        }
        windows
    }

    /// Looks up the level-0 blocks `needed`. The storage gets a hint for missing blocks, so that it
    /// can read them while the caller reads the data.
    pub(crate) fn request(&self, needed: RangeInclusive<u64>) -> Pending<'_> {
        if let (nodes, None) = self.cached(0, &needed) {
            return Pending::Ready(in_order(&needed, &nodes));
        }
        let mut claims = self.claims.claimed.lock();
        // Again under the lock: another reader may have fetched them all in the meantime.
        let (at_hand, missing) = self.cached(0, &needed);
        let Some(missing) = missing else {
            return Pending::Ready(in_order(&needed, &at_hand));
        };
        if claims.is_fetching_any(&missing) {
            return Pending::Wait(self, needed);
        }
        let within = match claims.take_announced(*missing.end()) {
            Some(window) => *missing.start()..window.end() + 1,
            None => self.neighbourhood(*missing.start()),
        };
        let wanted = self.extended(missing.clone(), within, &claims);
        debug_assert!(wanted.contains(missing.start()) && wanted.contains(missing.end()));
        debug_assert!(
            !claims.is_fetching_any(&wanted),
            "two readers fetch one block"
        );
        claims.fetching.push(wanted.clone());
        drop(claims);
        let claim = Claim {
            claims: &self.claims,
            nodes: wanted.clone(),
        };
        Pending::Fetch(InFlight::new(self, needed, at_hand, wanted, claim))
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

    /// Whether a level-0 block is in the cache or in flight.
    fn is_known(&self, node: u64, claims: &Claimed) -> bool {
        self.verified.contains_key(&(0, node)) || claims.is_fetching(node)
    }

    /// Extends a range of blocks to be fetched by those around it, within these.
    fn extended(
        &self,
        wanted: RangeInclusive<u64>,
        within: Range<u64>,
        claims: &Claimed,
    ) -> RangeInclusive<u64> {
        let (first, last) = wanted.into_inner();
        // Stop before blocks that others fetch, and omit known blocks at the end.
        let mut ahead = last + 1..within.end;
        let in_flight = ahead.clone().find(|&node| claims.is_fetching(node));
        ahead.end = in_flight.unwrap_or(within.end);
        let ahead = ahead.rev().find(|&node| !self.is_known(node, claims));
        let behind = (within.start..first).rev();
        let behind = behind.take_while(|&node| !self.is_known(node, claims));
        behind.last().unwrap_or(first)..=ahead.unwrap_or(last)
    }

    /// The end of the blocks with the same block above: a fetch that ends there needs only that one.
    fn siblings_end(&self, node: u64) -> u64 {
        let siblings_end = (node + 1).next_multiple_of(self.geometry.digests_per_block());
        siblings_end.min(self.geometry.level_blocks(0))
    }

    /// The blocks that are fetched with one of which nobody said that a reader will go on. They need no further request, and
    /// may save later ones.
    fn neighbourhood(&self, node: u64) -> Range<u64> {
        let blocks = (NEIGHBOURHOOD / self.hasher.block_size()) as u64;
        let blocks = blocks.clamp(1, self.window);
        let end = match node {
            // Most readers begin here, and many need all of a small file.
            0 => self.window.div_ceil(4),
            _ => (node + 1).next_multiple_of(blocks),
        };
        node - node % blocks..end.min(self.siblings_end(node))
    }

    /// Offset and length of adjacent blocks of a level in the stored tree.
    fn extent(&self, level: usize, nodes: &RangeInclusive<u64>) -> (u64, usize) {
        debug_assert!(*nodes.end() < self.geometry.level_blocks(level));
        let count = nodes.end() - nodes.start() + 1;
        let offset = self.geometry.node_offset(level, *nodes.start());
        (offset, count as usize * self.hasher.block_size())
    }

    /// The digest of a block of the level below `above`, by its number; below level 0 is the data.
    ///
    /// # Errors
    /// As [`Self::block`], of what is above it.
    pub(crate) fn digest_below(&self, above: usize, index: u64) -> Result<Digest, ReadError> {
        if above == self.geometry.levels() {
            return Ok(self.root);
        }
        let (parent, place) = self.geometry.parent(index);
        let parent = self.block((above, parent))?;
        Ok(self.hasher.digest(&parent[place]))
    }

    /// A verified block. It is read without its neighbours, as are those above it that are not here.
    ///
    /// # Errors
    /// Those of reading, and [`ReadError::Rejected`].
    fn block(&self, key: Key) -> Result<Node, ReadError> {
        if let Some(node) = self.verified.get(&key) {
            return Ok(node);
        }
        let (level, index) = key;
        let expected = self.digest_below(level + 1, index)?;
        let (offset, len) = self.extent(level, &(index..=index));
        let mut block = vec![0; len];
        self.account.note_tree_request(len);
        self.source.fetch(&mut block, offset, Ask::default())?;
        let actual = self.hasher.digests(&block);
        if actual != expected.as_bytes() {
            let mismatch = self.mismatch(key, expected.as_bytes(), &actual);
            return Err(ReadError::Rejected(Box::new(mismatch)));
        }
        let node = Node::from(block);
        self.verified.insert(key, node.clone());
        Ok(node)
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

    fn mismatch(&self, (level, index): Key, expected: &[u8], actual: &[u8]) -> Mismatch {
        Mismatch {
            place: BlockKind::Tree(level),
            offset: self.geometry.node_offset(level, index),
            covers: self.geometry.covered_data(level, index),
            expected: self.hasher.digest(expected),
            actual: self.hasher.digest(actual),
        }
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
                    tree.request(needed)
                }
            }
        }
    }
}

impl<'a> InFlight<'a> {
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
            given: Given::default(),
            _claim: claim,
        };
        fetch.plan(wanted);
        for run in &fetch.runs {
            let (offset, len) = tree.extent(run.level, &run.nodes);
            let range = offset..offset + len as u64;
            tree.source.hint(range, Hint::Need);
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
        let mut further = HashMap::new();
        let releases = self.tree.releases.as_ref();
        while self.distrust(&bad, &mut further) {
            suspect(releases, bad.into_values().collect());
            self.plan(self.needed.clone());
            bad = self.fetch()?;
        }
        let wrong = self.reasons(bad);
        if wrong.is_empty() {
            return Ok(in_order(&self.needed, &self.at_hand));
        }
        Err(failure(releases, wrong))
    }

    /// Tells the source of blocks that do not match, of each as long as it may give others; whether it may for some.
    fn distrust(&self, bad: &HashMap<Key, Mismatch>, further: &mut HashMap<Key, Further>) -> bool {
        let block_size = self.tree.hasher.block_size() as u64;
        let mut is_any = false;
        for (key, mismatch) in bad {
            let further = further.entry(*key).or_default();
            let block = mismatch.offset..mismatch.offset + block_size;
            is_any |= further.is_worth_it(|| self.tree.source.distrust(block, &self.given));
        }
        is_any
    }

    /// Reads and verifies all runs, the topmost first; returns the blocks that do not match.
    fn fetch(&mut self) -> Result<HashMap<Key, Mismatch>, ReadError> {
        let mut bad = HashMap::new();
        for run in mem::take(&mut self.runs).into_iter().rev() {
            self.fetch_run(&run, &mut bad)?;
        }
        Ok(bad)
    }

    fn fetch_run(&mut self, run: &Run, bad: &mut HashMap<Key, Mismatch>) -> Result<(), ReadError> {
        let tree = self.tree;
        let (offset, len) = tree.extent(run.level, &run.nodes);
        let mut blocks = vec![0; len];
        tree.account.note_tree_request(len);
        let ask = Ask::after(&self.given);
        let given = tree.source.fetch(&mut blocks, offset, ask)?;
        self.given.add(given);
        let digests = tree.hasher.digests(&blocks);
        let block_size = tree.hasher.block_size();
        let digest_size = tree.hasher.digest_size();
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
                // Whether anything is mended there does not matter to the reader.
                let at = tree.geometry.node_offset(run.level, index);
                let _ = tree.source.mend(block, at);
                let node = Node::from(block);
                tree.verified.insert(key, node.clone());
                self.at_hand.insert(key, node);
            } else {
                bad.insert(key, tree.mismatch(key, expected, actual));
            }
        }
        Ok(())
    }

    /// Why needed blocks could not be verified: for each, the first bad block on the way to the root.
    fn reasons(&self, mut bad: HashMap<Key, Mismatch>) -> Vec<Mismatch> {
        let needed = self.needed.clone().map(|index| (0, index));
        let missing = needed.filter(|key| !self.at_hand.contains_key(key));
        let mut reasons: Vec<Key> = missing.map(|key| self.reason(key, &bad)).collect();
        // Neighbours have the same one.
        reasons.dedup();
        let mismatches = reasons.iter().filter_map(|key| bad.remove(key));
        mismatches.collect()
    }

    fn reason(&self, mut key: Key, bad: &HashMap<Key, Mismatch>) -> Key {
        while !bad.contains_key(&key) {
            key = (key.0 + 1, self.tree.geometry.parent(key.1).0);
            assert!(
                key.0 < self.tree.geometry.levels(),
                "a block that is not verified has a bad ancestor"
            );
        }
        key
    }
}

/// The ranges of level-0 blocks that are not here yet.
#[derive(Default)]
struct Claims {
    claimed: Mutex<Claimed>,
    released: Condvar,
}

#[derive(Default)]
struct Claimed {
    /// Those that readers are fetching.
    fetching: Vec<RangeInclusive<u64>>,
    /// Windows of which the storage knows, and that the first reader who needs one of their blocks will fetch as a whole.
    announced: VecDeque<RangeInclusive<u64>>,
}

impl Claims {
    /// Returns when nobody is fetching any of `nodes`.
    fn wait_for(&self, nodes: &RangeInclusive<u64>) {
        let is_fetching = |claimed: &mut Claimed| claimed.is_fetching_any(nodes);
        drop(self.released.wait_while(self.claimed.lock(), is_fetching));
    }
}

impl Claimed {
    fn is_fetching(&self, node: u64) -> bool {
        self.is_fetching_any(&(node..=node))
    }

    fn is_fetching_any(&self, nodes: &RangeInclusive<u64>) -> bool {
        let is_one = |fetching: &RangeInclusive<u64>| {
            fetching.start() <= nodes.end() && nodes.start() <= fetching.end()
        };
        self.fetching.iter().any(is_one)
    }

    fn has_announced(&self, node: u64) -> bool {
        self.announced.iter().any(|window| window.contains(&node))
    }

    fn announce(&mut self, window: RangeInclusive<u64>) {
        if self.announced.len() == MAX_ANNOUNCED {
            self.announced.pop_front();
        }
        self.announced.push_back(window);
    }

    /// The announced window with this block, which no longer is one.
    fn take_announced(&mut self, node: u64) -> Option<RangeInclusive<u64>> {
        let mut windows = self.announced.iter();
        let window = windows.position(|window| window.contains(&node))?;
        self.announced.remove(window)
    }
}

/// One range of [`Claims`], until it is dropped.
struct Claim<'a> {
    claims: &'a Claims,
    nodes: RangeInclusive<u64>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claims = self.claims.claimed.lock();
        let mut fetching = claims.fetching.iter();
        let own = fetching.position(|nodes| *nodes == self.nodes);
        debug_assert!(own.is_some(), "a claim ends once");
        if let Some(own) = own {
            claims.fetching.swap_remove(own);
        }
        drop(claims);
        self.claims.released.notify_all();
    }
}

/// The level-0 blocks `needed`, all of which are in `nodes`.
fn in_order(needed: &RangeInclusive<u64>, nodes: &HashMap<Key, Node>) -> Vec<Node> {
    needed
        .clone()
        .map(|index| nodes[&(0, index)].clone())
        .collect()
}
