//! Finds files with equal content, which is stored once.

use std::{
    collections::HashMap,
    ops::{ControlFlow, Range},
};

use sha2::{Digest, Sha256};
use verimount_scan::{Content, Contents, FileData, InodeId, InodeKind, SourceTree};
use verimount_source::Progress;

use super::{
    BuildError, Format,
    attributes::Attributes,
    chunk_map::stored_ranges,
    shape::{Data, Shape},
};
use crate::block_size::BlockSize;

/// Bytes of a file's beginning, middle and end that are compared first. Files of up to three times this
/// are read whole.
const SAMPLE: u64 = 4096;

/// How much is read at once, in bytes.
const BUFFER_LEN: usize = 256 << 10;

/// The files whose content another file before them has, too.
#[derive(Debug, Default)]
pub(super) struct Equal(HashMap<InodeId, InodeId>);

impl Equal {
    /// The first file with the content of this one.
    pub(super) fn first(&self, inode: InodeId) -> InodeId {
        self.0.get(&inode).copied().unwrap_or(inode)
    }

    /// Whether a file before this one has the same content.
    pub(super) fn is_repeated(&self, inode: InodeId) -> bool {
        self.0.contains_key(&inode)
    }

    /// Adds the files with equal keys, sorted by key, then in walk order.
    fn add(&mut self, candidates: &[Candidate<[u8; 32]>]) {
        for group in candidates.chunk_by(Candidate::may_equal) {
            if let [first, others @ ..] = group {
                let others = others.iter().map(|other| (other.inode, first.inode));
                self.0.extend(others);
            }
        }
    }

    /// Each file with repetitions, with one of them, sorted.
    pub(super) fn by_first(&self) -> Vec<(InodeId, InodeId)> {
        let mut pairs: Vec<_> = self
            .0
            .iter()
            .map(|(other, first)| (*first, *other))
            .collect();
        pairs.sort_unstable();
        pairs
    }
}

/// A file that may be equal to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate<K> {
    key: K,
    /// Where the packs of its index begin, if it may be compressed: otherwise its index would differ.
    alignment: Option<u64>,
    inode: InodeId,
}

impl<K: PartialEq> Candidate<K> {
    fn may_equal(&self, other: &Self) -> bool {
        self.key == other.key && self.alignment == other.alignment
    }
}

/// Compares sizes, then samples, then all of the content.
///
/// Only files that take blocks of their own count: what is behind an inode cannot be shared. Compressed files must have equal
/// indexes as well. A file that was added does not count: whatever else is in the tree, it is stored where it is.
pub(super) fn find(
    tree: &SourceTree,
    attributes: &Attributes,
    format: Format,
    progress: &mut Progress<'_>,
) -> Result<Equal, BuildError> {
    let entries = tree
        .entries()
        .filter(|entry| entry.is_first_name() && !entry.is_added());
    let by_size = entries.filter_map(|entry| {
        let InodeKind::File(file) = &entry.inode().kind else {
            return None;
        };
        let shape = Shape::new(entry, attributes, format);
        (shape.blocks() > 0).then(|| Candidate {
            key: file.size(),
            alignment: match &shape.data {
                Data::Compressed(index) => Some(index.alignment()),
                Data::Flat { .. } | Data::Chunks(_) => None,
            },
            inode: entry.inode_id(),
        })
    });
    let by_size = several(by_size.collect());
    let block = format.block;
    let by_sample = digests(tree, block, &by_size, |file, hash| {
        if file.is_small() {
            file.hash_all(hash, progress)
        } else {
            file.hash_samples(hash, progress)
        }
    })?;
    let (small, large): (Vec<_>, Vec<_>) = several(by_sample)
        .into_iter()
        .partition(|candidate| is_small(&stored_ranges(file(tree, candidate.inode), block)));
    let mut equal = Equal::default();
    equal.add(&small);
    let by_content = digests(tree, block, &large, |file, hash| {
        file.hash_all(hash, progress)
    })?;
    equal.add(&several(by_content));
    Ok(equal)
}

/// Those that may be equal to another one, these next to each other, then in walk order.
fn several<K: Copy + Ord>(mut all: Vec<Candidate<K>>) -> Vec<Candidate<K>> {
    all.sort_unstable();
    let groups = all.chunk_by(Candidate::may_equal);
    groups
        .filter(|group| group.len() > 1)
        .flatten()
        .copied()
        .collect()
}

/// The digests of what `hash` takes of each file, with its size and the holes that are kept.
fn digests<K: Copy>(
    tree: &SourceTree,
    block: BlockSize,
    candidates: &[Candidate<K>],
    mut hash: impl FnMut(&OpenFile<'_>, &mut Sha256) -> Result<(), BuildError>,
) -> Result<Vec<Candidate<[u8; 32]>>, BuildError> {
    // In walk order, in which files are opened fastest.
    let mut candidates = candidates.to_vec();
    candidates.sort_unstable_by_key(|candidate| candidate.inode);
    let mut contents = Contents::new(tree)?;
    let digests = candidates.into_iter().map(|candidate| {
        let inode = candidate.inode;
        let data = file(tree, inode);
        let mut state = Sha256::new();
        state.update(data.size().to_le_bytes());
        let stored = stored_ranges(data, block);
        for range in &stored {
            state.update(range.start.to_le_bytes());
            state.update(range.end.to_le_bytes());
        }
        let file = OpenFile {
            size: data.size(),
            stored,
            content: contents.open(tree.inode(inode).first_name)?,
        };
        hash(&file, &mut state)?;
        file.content.finish()?;
        Ok(Candidate {
            key: state.finalize().into(),
            alignment: candidate.alignment,
            inode,
        })
    });
    digests.collect()
}

fn len(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

fn is_small(stored: &[Range<u64>]) -> bool {
    len(stored) <= 3 * SAMPLE
}

/// A file that is compared.
struct OpenFile<'t> {
    size: u64,
    /// The ranges that are stored in the image. Holes of the file that are not kept do not count.
    stored: Vec<Range<u64>>,
    content: Content<'t>,
}

impl OpenFile<'_> {
    fn is_small(&self) -> bool {
        is_small(&self.stored)
    }

    /// Hashes everything that is stored.
    fn hash_all(&self, hash: &mut Sha256, progress: &mut Progress<'_>) -> Result<(), BuildError> {
        let longest = len(&self.stored).min(BUFFER_LEN as u64);
        let mut buffer = vec![0; longest as usize];
        for range in &self.stored {
            let mut at = range.start;
            while at < range.end {
                let len = (range.end - at).min(buffer.len() as u64);
                self.hash_part(&mut buffer[..len as usize], at, hash, progress)?;
                at += len;
            }
        }
        Ok(())
    }

    /// Hashes the beginning, the middle and the end of the file; holes are read as zeros.
    fn hash_samples(
        &self,
        hash: &mut Sha256,
        progress: &mut Progress<'_>,
    ) -> Result<(), BuildError> {
        let mut buffer = [0; SAMPLE as usize];
        let last = self.size - SAMPLE;
        let middle = last / 2 / SAMPLE * SAMPLE;
        for at in [0, middle, last] {
            self.hash_part(&mut buffer, at, hash, progress)?;
        }
        Ok(())
    }

    /// Hashes the bytes at `at` that fill `buffer`.
    fn hash_part(
        &self,
        buffer: &mut [u8],
        at: u64,
        hash: &mut Sha256,
        progress: &mut Progress<'_>,
    ) -> Result<(), BuildError> {
        self.content.read_exact_at(buffer, at)?;
        hash.update(&*buffer);
        match progress(buffer.len() as u64) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(BuildError::Cancelled),
        }
    }
}

/// The content of an inode that is a regular file.
fn file(tree: &SourceTree, inode: InodeId) -> &FileData {
    match &tree.inode(inode).kind {
        InodeKind::File(file) => file,
        other => unreachable!("only files are compared, not {other:?}"),
    }
}
