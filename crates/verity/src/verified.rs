use std::{
    ops::{Range, RangeInclusive},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use verimount_source::{Ask, Fetch, Given, Hint, ReadAt, ReadError, Scratch, check_range};

use crate::{
    Account, BlockHasher, BlockKind, Digest, Error, Identity, Mismatch, Releases, Seal,
    TreeGeometry, VerifyStats,
    further::Further,
    releases::{failure, suspect},
    tree::TreeReader,
};

/// How a [`VerifiedReader`] reads.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// How far ahead of sequential readers the tree is read: enough of it for this many bytes of data. With 0, only what a read
    /// itself needs.
    pub tree_readahead: u64,
    /// Size of the cache of verified tree blocks, in bytes.
    pub cache_bytes: usize,
    /// Where it is counted what was read and verified. Several readers may have the same account.
    pub account: Arc<Account>,
    /// Who is asked about blocks that do not match, if anybody knows of other releases.
    pub releases: Option<Arc<dyn Releases>>,
}

impl VerifyOptions {
    /// With SHA-256 and blocks of 4 KiB this is 512 KiB of tree, one block of the level above: a
    /// request every 64 MiB, and hashing it takes well under a millisecond.
    pub const DEFAULT_TREE_READAHEAD: u64 = 64 << 20;

    /// Twice the size of the level-0 blocks for 1 GiB of data, with SHA-256 and blocks of 4 KiB.
    pub const DEFAULT_CACHE_BYTES: usize = 16 << 20;
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            tree_readahead: Self::DEFAULT_TREE_READAHEAD,
            cache_bytes: Self::DEFAULT_CACHE_BYTES,
            account: Arc::default(),
            releases: None,
        }
    }
}

/// The digests that blocks must have.
enum Expected<'a> {
    /// That of the only block.
    Root(&'a [u8]),
    /// Those in adjacent blocks of level 0, from a digest in the first one on.
    Leaves(&'a [Arc<[u8]>]),
}

/// Blocks that do not match, in order.
#[derive(Default)]
struct BadBlocks {
    runs: Vec<Range<u64>>,
    mismatches: Vec<Mismatch>,
}

/// The data of a sealed file. Every byte it returns was hashed in the buffer in which it is
/// returned, and matched the tree.
///
/// Blocks that do not match are [distrusted](Fetch::distrust) and, as long as the source may then give others, fetched
/// again. A source that has wrong copies is told the [right bytes](Fetch::mend).
///
/// It reads whole blocks of the tree's block size; [`ReadAt::read_borrowed`] returns them without
/// copying.
pub struct VerifiedReader {
    data: Arc<dyn Fetch>,
    tree: TreeReader,
    identity: Identity,
    hasher: BlockHasher,
}

impl VerifiedReader {
    /// Reads the data of a seal that was accepted.
    ///
    /// # Errors
    /// [`Error::WrongRootHash`] if the topmost block of its tree has another one than the seal, [`Error::Source`].
    pub fn new(seal: Seal, options: VerifyOptions) -> Result<Self, Error> {
        seal.check_root()?;
        Ok(Self {
            data: seal.data,
            tree: TreeReader::new(seal.tree, &seal.hashing, seal.geometry, seal.root, options),
            identity: seal.identity,
            hasher: seal.hashing.data_hasher(),
        })
    }

    /// The digest that data is verified against.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Where it is counted what it reads and verifies.
    pub fn account(&self) -> &Arc<Account> {
        &self.tree.account
    }

    /// What it and all other readers with its [account](VerifyOptions::account) read and verified so far.
    pub fn stats(&self) -> VerifyStats {
        self.account().stats()
    }

    /// A hint that all levels of the tree but the lowest, and the beginning of that, will be read soon. Returns without waiting.
    pub fn will_need_tree(&self) {
        self.tree.will_need_beginning();
    }

    /// What makes the digests of data blocks.
    pub fn leaf_function(&self) -> &BlockHasher {
        &self.hasher
    }

    /// The shape of the tree.
    pub fn geometry(&self) -> &TreeGeometry {
        &self.tree.geometry
    }

    /// The verified digests of some data blocks, one after the other. The data is not read.
    ///
    /// # Errors
    /// As reading these blocks, as far as that is for the tree; [`ReadError::PastEnd`] for blocks that are not there.
    pub fn leaves(&self, blocks: Range<u64>) -> Result<Vec<u8>, ReadError> {
        let count = blocks.end.saturating_sub(blocks.start) as usize;
        check_range(blocks.start, count, self.geometry().data_blocks())?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.geometry().levels() == 0 {
            return Ok(self.tree.root.as_bytes().to_vec());
        }
        let (first, place) = self.geometry().parent(blocks.start);
        let nodes = first..=self.geometry().parent(blocks.end - 1).0;
        let nodes = self.tree.request(nodes).complete()?;
        let len = count * self.hasher.digest_size();
        Ok(nodes.concat()[place.start..place.start + len].to_vec())
    }

    /// The verified digest of a block, by its offset in the data or in the stored tree; `None` if none begins there. Only the
    /// tree is read.
    ///
    /// # Errors
    /// Those of reading, and [`ReadError::Rejected`] if what is above the block does not match.
    pub fn digest_at(&self, place: BlockKind, offset: u64) -> Result<Option<Digest>, ReadError> {
        let Some(block) = self.geometry().block_at(place, offset) else {
            return Ok(None);
        };
        let above = match place {
            BlockKind::Data => 0,
            BlockKind::Tree(level) => level + 1,
        };
        self.tree.digest_below(above, block).map(Some)
    }

    fn block_size(&self) -> usize {
        self.hasher.block_size()
    }

    /// The bytes of data in the block that holds the byte at `offset`.
    pub(crate) fn block_at(&self, offset: u64) -> Range<u64> {
        self.geometry()
            .data_block(offset / self.block_size() as u64)
    }

    /// Fills `buf` with the blocks from `first` on, and verifies them there. `buf` has room for
    /// whole blocks; after the end of the data it is filled with zeros. `digests` has room for the
    /// digests of these blocks.
    fn read_blocks(&self, buf: &mut [u8], digests: &mut [u8], first: u64) -> Result<(), ReadError> {
        let blocks = (buf.len() / self.block_size()) as u64;
        if blocks == 0 {
            return Ok(());
        }
        let last = first + blocks - 1;
        let geometry = self.geometry();
        if geometry.levels() == 0 {
            let given = self.read_hashed(buf, digests, first, Ask::default())?;
            let expected = Expected::Root(self.tree.root.as_bytes());
            self.check(buf, digests, first, &expected, given)?;
        } else {
            let leaves = geometry.parent(first).0..=geometry.parent(last).0;
            self.read_against(buf, digests, first, leaves)?;
        }
        let verified = buf.len() as u64;
        self.account().bytes_verified.fetch_add(verified, Relaxed);
        Ok(())
    }

    /// Reads blocks whose digests are in the level-0 blocks `leaves`. These are requested first and
    /// waited for last, so that the storage reads data and tree concurrently.
    fn read_against(
        &self,
        buf: &mut [u8],
        digests: &mut [u8],
        first: u64,
        leaves: RangeInclusive<u64>,
    ) -> Result<(), ReadError> {
        let pending = self.tree.request(leaves);
        let given = self.read_hashed(buf, digests, first, Ask::default())?;
        let nodes = pending.complete()?;
        self.check(buf, digests, first, &Expected::Leaves(&nodes), given)
    }

    /// Checks the digests of blocks in `buf`, which were `given`. Those that do not match are read again, as long as the source
    /// may give others.
    fn check(
        &self,
        buf: &mut [u8],
        digests: &mut [u8],
        first: u64,
        expected: &Expected<'_>,
        mut given: Given,
    ) -> Result<(), ReadError> {
        let block_size = self.block_size();
        let digest_size = self.hasher.digest_size();
        let part = |run: &Range<u64>, size: usize| {
            (run.start - first) as usize * size..(run.end - first) as usize * size
        };
        let mut further = Further::default();
        while let Err(bad) = self.compare(first, digests, expected) {
            if !further.is_worth_it(|| self.distrust(&bad.runs, &given)) {
                return Err(failure(self.tree.releases.as_ref(), bad.mismatches));
            }
            suspect(self.tree.releases.as_ref(), bad.mismatches);
            for run in &bad.runs {
                let again = &mut digests[part(run, digest_size)];
                let buf = &mut buf[part(run, block_size)];
                let ask = Ask::after(&given);
                given.add(self.read_hashed(buf, again, run.start, ask)?);
            }
        }
        let offset = first * block_size as u64;
        let stored = (self.size() - offset).min(buf.len() as u64) as usize;
        // Whether anything is mended there does not matter to the reader.
        let _ = self.data.mend(&buf[..stored], offset);
        Ok(())
    }

    /// Tells the source of all blocks that do not match; how often it may give others for some.
    fn distrust(&self, runs: &[Range<u64>], given: &Given) -> u32 {
        let block_size = self.block_size() as u64;
        let bytes = runs
            .iter()
            .map(|run| run.start * block_size..run.end * block_size);
        let further = bytes.map(|bytes| self.data.distrust(bytes, given));
        further.max().unwrap_or(0)
    }

    /// Reads the blocks from `first` on into `buf` and hashes them there. Returns who gave them.
    fn read_hashed(
        &self,
        buf: &mut [u8],
        digests: &mut [u8],
        first: u64,
        ask: Ask<'_>,
    ) -> Result<Given, ReadError> {
        let offset = first * self.block_size() as u64;
        let stored = (self.size() - offset).min(buf.len() as u64) as usize;
        let (data, beyond) = buf.split_at_mut(stored);
        debug_assert!(
            beyond.len() < self.block_size(),
            "only the last block is short"
        );
        self.account().data_requests.fetch_add(1, Relaxed);
        let given = self.data.fetch(data, offset, ask)?;
        beyond.fill(0);
        self.hasher.hash_into(buf, digests);
        Ok(given)
    }

    /// Compares the digests of the blocks from `first` on with the expected ones.
    fn compare(
        &self,
        first: u64,
        mut actual: &[u8],
        expected: &Expected<'_>,
    ) -> Result<(), BadBlocks> {
        let mut block = first;
        let mut bad = BadBlocks::default();
        let mut runs = expected.runs();
        while !actual.is_empty() {
            let run = runs.next().expect("there are leaves for all blocks");
            let start = match expected {
                Expected::Root(_) => 0,
                Expected::Leaves(_) => self.geometry().parent(block).1.start,
            };
            debug_assert!(start == 0 || block == first, "a leaf is left out");
            let expected = &run[start..];
            let here = actual.len().min(expected.len());
            let (now, later) = actual.split_at(here);
            if now != &expected[..here] {
                self.add_bad(&mut bad, block, now, expected);
            }
            block += (here / self.hasher.digest_size()) as u64;
            actual = later;
        }
        if bad.runs.is_empty() {
            return Ok(());
        }
        Err(bad)
    }

    /// Finds the blocks of a run whose digests differ.
    fn add_bad(&self, bad: &mut BadBlocks, first: u64, actual: &[u8], expected: &[u8]) {
        let size = self.hasher.digest_size();
        let pairs = actual.chunks_exact(size).zip(expected.chunks_exact(size));
        let differ = (first..)
            .zip(pairs)
            .filter(|(_, (actual, expected))| actual != expected);
        for (block, (actual, expected)) in differ {
            bad.mismatches.push(self.mismatch(block, actual, expected));
            match bad.runs.last_mut() {
                Some(run) if run.end == block => run.end += 1,
                _ => bad.runs.push(block..block + 1),
            }
        }
    }

    fn mismatch(&self, block: u64, actual: &[u8], expected: &[u8]) -> Mismatch {
        let covers = self.geometry().data_block(block);
        Mismatch {
            place: BlockKind::Data,
            offset: covers.start,
            covers,
            expected: self.hasher.digest(expected),
            actual: self.hasher.digest(actual),
        }
    }

    /// The blocks that hold a range of bytes.
    fn covering(&self, offset: u64, len: usize) -> Range<u64> {
        let block_size = self.block_size() as u64;
        offset / block_size..(offset + len as u64).div_ceil(block_size)
    }
}

impl Expected<'_> {
    fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let (root, leaves) = match self {
            Self::Root(root) => (Some(*root), &[][..]),
            Self::Leaves(leaves) => (None, *leaves),
        };
        root.into_iter().chain(leaves.iter().map(|leaf| &**leaf))
    }
}

impl ReadAt for VerifiedReader {
    fn size(&self) -> u64 {
        self.geometry().data_size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let block_size = self.block_size();
        check_range(offset, buf.len(), self.size())?;
        if offset.is_multiple_of(block_size as u64) && buf.len().is_multiple_of(block_size) {
            let mut digests = vec![0; self.hasher.digests_len(buf.len())];
            return self.read_blocks(buf, &mut digests, offset / block_size as u64);
        }
        let mut scratch = Scratch::default();
        let bytes = self.read_borrowed(&mut scratch, offset, buf.len())?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn read_borrowed<'s>(
        &self,
        scratch: &'s mut Scratch,
        offset: u64,
        len: usize,
    ) -> Result<&'s [u8], ReadError> {
        check_range(offset, len, self.size())?;
        let blocks = self.covering(offset, len);
        let block_size = self.block_size();
        let covered = (blocks.end - blocks.start) as usize * block_size;
        let digests_len = self.hasher.digests_len(covered);
        let (buf, digests) = scratch.grown(covered + digests_len).split_at_mut(covered);
        self.read_blocks(buf, digests, blocks.start)?;
        let start = (offset % block_size as u64) as usize;
        Ok(&buf[start..start + len])
    }

    fn will_need(&self, offset: u64, len: u64) {
        let range = offset..offset.saturating_add(len);
        self.data.hint(range, Hint::Need);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.size());
        if offset < end && self.geometry().levels() > 0 {
            let blocks = self.covering(offset, (end - offset) as usize);
            let parent = |block| self.geometry().parent(block).0;
            self.tree
                .will_reach(parent(blocks.start)..=parent(blocks.end - 1));
        }
        let range = offset..offset.saturating_add(len);
        self.data.hint(range, Hint::Reach);
    }
}
