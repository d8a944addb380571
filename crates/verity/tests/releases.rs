//! Blocks of another release are told from forged ones by who knows that release.

use std::{
    fmt, io,
    num::NonZeroUsize,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use verimount_source::{ReadAt, ReadError, Unchecked};
use verimount_testkit::{Doubtful, Flipped, go_on, noise};
use verimount_verity::{
    BlockKind, BlockSize, Mismatch, Releases, Seal, SealLayout, Sealed, TreeParams, Trust,
    VerifiedReader, VerifyOptions, seal,
};

const BLOCK: usize = 1024;

/// How many digests are in a block.
const DIGESTS: usize = 32;

/// Three levels.
const BLOCKS: usize = DIGESTS * DIGESTS + 200;

/// A seal, its data and its tree.
fn sealed(seed: u64) -> (Seal, Arc<Vec<u8>>, Arc<Vec<u8>>) {
    let data = Arc::new(noise(BLOCKS * BLOCK, seed));
    let file = tempfile::NamedTempFile::new().unwrap();
    let params = TreeParams {
        block_size: BlockSize::new(BLOCK as u64).unwrap(),
        ..TreeParams::default()
    };
    let (layout, threads) = (SealLayout::Sidecar, NonZeroUsize::MIN);
    seal(&data, file.as_file(), layout, &params, threads, &mut go_on).unwrap();
    let sidecar = Arc::new(std::fs::read(file.path()).unwrap());
    let sealed = Sealed::open_sidecar(data.clone(), sidecar).unwrap();
    let seal = sealed.accepted_by(&Trust::Unpinned).unwrap();
    let mut tree = vec![0; seal.geometry().tree_size() as usize];
    let stored = Unchecked(&**seal.tree_unverified());
    stored.read_exact_at(&mut tree, 0).unwrap();
    (seal, data, Arc::new(tree))
}

fn reader(seal: Seal, options: VerifyOptions) -> VerifiedReader {
    VerifiedReader::new(seal, options).unwrap()
}

/// Knows one release, and counts what it is told.
struct Known {
    reader: VerifiedReader,
    suspected: AtomicUsize,
}

impl Known {
    fn new(release: Seal) -> Arc<Self> {
        Arc::new(Self {
            reader: reader(release, VerifyOptions::default()),
            suspected: AtomicUsize::new(0),
        })
    }
}

impl Releases for Known {
    fn failure(&self, wrong: &[Mismatch]) -> Option<ReadError> {
        assert!(!wrong.is_empty());
        let digest = |block: &Mismatch| self.reader.digest_at(block.place, block.offset);
        let is_own = |block: &Mismatch| digest(block).unwrap() == Some(block.actual);
        let failure = io::Error::other("another release");
        wrong
            .iter()
            .all(is_own)
            .then(|| ReadError::io(0, 0)(failure))
    }

    fn suspect(self: Arc<Self>, wrong: Vec<Mismatch>) {
        self.suspected.fetch_add(wrong.len(), SeqCst);
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

fn knowing(known: &Arc<Known>) -> VerifyOptions {
    VerifyOptions {
        releases: Some(known.clone()),
        cache_bytes: 0,
        ..VerifyOptions::default()
    }
}

/// Whether a read fails as for another release; not if as for a mismatch.
fn is_replaced(reader: &VerifiedReader, bytes: Range<usize>) -> bool {
    let mut buf = vec![0; bytes.len()];
    match reader.read_exact_at(&mut buf, bytes.start as u64) {
        Err(ReadError::Io { .. }) => true,
        Err(ReadError::Rejected(reason)) => {
            assert!(reason.is::<Mismatch>(), "{reason}");
            false
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_digests_are_those_of_the_blocks() {
    let (sealed, data, tree) = sealed(1);
    let geometry = sealed.geometry().clone();
    assert_eq!(geometry.levels(), 3);
    let reader = reader(sealed, VerifyOptions::default());
    let at = |place, offset: usize| reader.digest_at(place, offset as u64).unwrap();
    let of = |bytes: &[u8]| reader.leaf_function().digests(bytes);
    for block in [0, 1, DIGESTS, DIGESTS * DIGESTS, BLOCKS - 1] {
        let offset = block * BLOCK;
        let digest = at(BlockKind::Data, offset).unwrap();
        assert_eq!(digest.as_bytes(), of(&data[offset..][..BLOCK]));
    }
    for level in 0..3 {
        for index in [0, geometry.level_blocks(level) - 1] {
            let offset = geometry.node_offset(level, index) as usize;
            let digest = at(BlockKind::Tree(level), offset).unwrap();
            assert_eq!(digest.as_bytes(), of(&tree[offset..][..BLOCK]), "{level}");
            // It is a block of no other level.
            let others = (0..3).filter(|other| *other != level);
            assert!(
                others
                    .map(|other| at(BlockKind::Tree(other), offset))
                    .all(|other| other.is_none())
            );
        }
    }
    for (place, offset) in [
        (BlockKind::Data, 1),
        (BlockKind::Data, BLOCKS * BLOCK),
        (BlockKind::Data, usize::MAX - BLOCK + 1),
        (BlockKind::Tree(0), tree.len()),
        (BlockKind::Tree(2), BLOCK),
        (BlockKind::Tree(3), 0),
    ] {
        assert_eq!(at(place, offset), None, "{place} {offset}");
    }
}

#[test]
fn a_changed_tree_has_no_digests_below_the_change() {
    let (sealed, data, tree) = sealed(1);
    let geometry = sealed.geometry().clone();
    let changed = geometry.node_offset(1, 1);
    let tree = Arc::new(Flipped::new(tree));
    tree.flip(changed + 5);
    let reader = reader(sealed.with_sources(data, tree), VerifyOptions::default());
    assert!(
        reader
            .digest_at(BlockKind::Tree(1), changed)
            .unwrap()
            .is_some()
    );
    for (place, right, wrong) in [
        (BlockKind::Data, 0, (DIGESTS * DIGESTS * BLOCK) as u64),
        (
            BlockKind::Tree(0),
            geometry.node_offset(0, 0),
            geometry.node_offset(0, DIGESTS as u64),
        ),
    ] {
        assert!(reader.digest_at(place, right).unwrap().is_some());
        let read = reader.digest_at(place, wrong);
        assert!(matches!(read, Err(ReadError::Rejected(_))), "{read:?}");
    }
}

/// Whether its data was read, or its tree, or both.
#[test]
fn what_another_release_has_is_no_mismatch() {
    let (first, data, tree) = sealed(1);
    let (second, new_data, new_tree) = sealed(2);
    let known = Known::new(second);
    for (data, tree) in [
        (new_data.clone(), tree.clone()),
        (data.clone(), new_tree.clone()),
        (new_data.clone(), new_tree.clone()),
    ] {
        let replaced = first.clone().with_sources(data, tree);
        let reader = reader(replaced, knowing(&known));
        for bytes in [
            0..10,
            3 * BLOCK..200 * BLOCK,
            (BLOCKS - 1) * BLOCK..BLOCKS * BLOCK,
        ] {
            assert!(is_replaced(&reader, bytes.clone()), "{bytes:?}");
        }
    }
}

/// A seal proves nothing of the bytes in front of it.
#[test]
fn one_forged_block_among_those_of_another_release_is_a_mismatch() {
    let (first, _, tree) = sealed(1);
    let (second, new_data, new_tree) = sealed(2);
    let known = Known::new(second);
    let forged = Arc::new(Flipped::new(new_data.clone()));
    forged.flip(10 * BLOCK as u64);
    let with = |data: Arc<Flipped<Arc<Vec<u8>>>>| first.clone().with_sources(data, tree.clone());
    let in_data = reader(with(forged), knowing(&known));
    assert!(!is_replaced(&in_data, 2 * BLOCK..12 * BLOCK));
    assert!(is_replaced(&in_data, 2 * BLOCK..10 * BLOCK));

    // The block of level 0 that is in the middle of three.
    let forged = Arc::new(Flipped::new(new_tree.clone()));
    let geometry = first.geometry().clone();
    let right_above = Above {
        above: tree.clone(),
        below: forged.clone(),
        at: geometry.node_offset(0, 0),
    };
    forged.flip(geometry.node_offset(0, 5));
    let in_tree = reader(
        first.clone().with_sources(new_data, Arc::new(right_above)),
        knowing(&known),
    );
    assert!(!is_replaced(
        &in_tree,
        4 * DIGESTS * BLOCK..7 * DIGESTS * BLOCK
    ));
    assert!(is_replaced(
        &in_tree,
        6 * DIGESTS * BLOCK..8 * DIGESTS * BLOCK
    ));
}

/// A tree whose lowest level is from elsewhere.
struct Above<S> {
    above: Arc<Vec<u8>>,
    below: S,
    at: u64,
}

impl<S: ReadAt> ReadAt for Above<S> {
    fn size(&self) -> u64 {
        self.below.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        if offset < self.at {
            self.above.read_exact_at(buf, offset)
        } else {
            self.below.read_exact_at(buf, offset)
        }
    }
}

/// Whoever has a right copy is not kept waiting.
#[test]
fn what_a_further_copy_has_right_is_told_and_read() {
    let (first, data, tree) = sealed(1);
    let known = Known::new(first.clone());
    let wrong = [5, 3 * BLOCK as u64];
    let copy = Arc::new(Doubtful::copy(data.clone(), wrong));
    let node = first.geometry().node_offset(0, 0);
    let of_tree = Arc::new(Doubtful::copy(tree, [node]));
    let reader = reader(first.with_sources(copy, of_tree), knowing(&known));
    let mut buf = vec![0; 10 * BLOCK];
    reader.read_exact_at(&mut buf, 0).unwrap();
    assert!(buf == data[..buf.len()]);
    assert_eq!(known.suspected.load(SeqCst), 3);
}
