//! Finds files with equal content, which is stored once.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use verimount_scan::{Content, Contents, FileData, InodeId, InodeKind, SourceTree};

use super::{
    BuildError, Format,
    attributes::Attributes,
    shape::{Data, Shape},
};

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

    /// Number of files whose content another file before them has.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A file that may be equal to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate<K> {
    key: K,
    /// Where the packs of its index begin, if it may be compressed: otherwise its index would differ.
    alignment: u64,
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
/// indexes as well.
pub(super) fn find(
    tree: &SourceTree,
    attributes: &Attributes,
    format: Format,
) -> Result<Equal, BuildError> {
    let entries = tree.entries().filter(|entry| entry.is_first_name());
    let by_size = entries.filter_map(|entry| {
        let InodeKind::File(file) = &entry.inode().kind else {
            return None;
        };
        let shape = Shape::new(entry, attributes, format);
        (shape.blocks() > 0).then(|| Candidate {
            key: file.size(),
            alignment: match &shape.data {
                Data::Compressed(index) => index.alignment(),
                Data::Flat { .. } | Data::Chunks(_) => 0,
            },
            inode: entry.inode_id(),
        })
    });
    let by_size = several(by_size.collect());
    let by_sample = digests(tree, &by_size, |content, file, hash| match is_small(file) {
        true => hash_all(content, file, hash),
        false => hash_samples(content, file, hash),
    })?;
    let (small, large): (Vec<_>, Vec<_>) = several(by_sample)
        .into_iter()
        .partition(|candidate| is_small(file(tree, candidate.inode)));
    let mut equal = Equal::default();
    equal.add(&small);
    equal.add(&several(digests(tree, &large, hash_all)?));
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

/// The digests of what `hash` takes of each file, with its size and holes.
fn digests<K: Copy>(
    tree: &SourceTree,
    candidates: &[Candidate<K>],
    hash: impl Fn(&Content<'_>, &FileData, &mut Sha256) -> Result<(), BuildError>,
) -> Result<Vec<Candidate<[u8; 32]>>, BuildError> {
    // In walk order, in which files are opened fastest.
    let mut candidates = candidates.to_vec();
    candidates.sort_unstable_by_key(|candidate| candidate.inode);
    let mut contents = Contents::new(tree)?;
    let digests = candidates.into_iter().map(|candidate| {
        let inode = candidate.inode;
        let file = file(tree, inode);
        let mut state = Sha256::new();
        state.update(file.size().to_le_bytes());
        for range in file.stored() {
            state.update(range.start.to_le_bytes());
            state.update(range.end.to_le_bytes());
        }
        let content = contents.open(tree.inode(inode).first_name)?;
        hash(&content, file, &mut state)?;
        content.finish()?;
        Ok(Candidate {
            key: state.finalize().into(),
            alignment: candidate.alignment,
            inode,
        })
    });
    digests.collect()
}

fn is_small(file: &FileData) -> bool {
    file.stored_bytes() <= 3 * SAMPLE
}

/// Hashes everything that has storage.
fn hash_all(content: &Content<'_>, file: &FileData, hash: &mut Sha256) -> Result<(), BuildError> {
    let longest = file.stored_bytes().min(BUFFER_LEN as u64);
    let mut buffer = vec![0; longest as usize];
    for range in file.stored() {
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(buffer.len() as u64);
            let part = &mut buffer[..len as usize];
            content.read_exact_at(part, at)?;
            hash.update(part);
            at += len;
        }
    }
    Ok(())
}

/// Hashes the beginning, the middle and the end of the file; holes are read as zeros.
fn hash_samples(
    content: &Content<'_>,
    file: &FileData,
    hash: &mut Sha256,
) -> Result<(), BuildError> {
    let mut buffer = [0; SAMPLE as usize];
    let last = file.size() - SAMPLE;
    let middle = last / 2 / SAMPLE * SAMPLE;
    for at in [0, middle, last] {
        content.read_exact_at(&mut buffer, at)?;
        hash.update(buffer);
    }
    Ok(())
}

/// The content of an inode that is a regular file.
fn file(tree: &SourceTree, inode: InodeId) -> &FileData {
    match &tree.inode(inode).kind {
        InodeKind::File(file) => file,
        other => unreachable!("only files are compared, not {other:?}"),
    }
}
