use std::{fmt, io, ops::Range, path::Path, sync::Arc};

use verimount_source::{ReadAt, ReadError};
use verimount_verity::{LeafFunction, Leaves};

use super::index::{Builder, Index};
use crate::{
    Error, Location, OpenOptions, accepted::Accepted, place::Place, seal_search::find_hash_area,
};

/// How many digests are read at a time.
const READ: usize = 1 << 14;

/// Older content from which nothing is used, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unshared {
    /// Where it is.
    pub location: Location,
    /// Why nothing of it is used.
    pub reason: UnsharedReason,
}

/// Why nothing of older content is used.
#[derive(Debug)]
#[non_exhaustive]
pub enum UnsharedReason {
    /// Its tree is made with another hash, block size or salt, so that equal blocks have other digests.
    OtherFunction,
    /// It cannot be opened or has no seal, its tree cannot be read, or there is no room for what it says.
    Unusable(Error),
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
        }
    }
}

/// The blocks of older contents, whose trees are made with the same function.
pub(crate) struct Olds {
    function: LeafFunction,
    contents: Vec<Old>,
    index: Index,
}

/// Older content.
struct Old {
    /// The number of its first block, counted over all contents.
    first: u64,
    data: Arc<dyn ReadAt>,
}

/// The number of a block, counted over all older contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OldBlock(u64);

/// Adjacent blocks of new content, and where the first of them is in older content, if all are there in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) blocks: Range<u64>,
    pub(crate) old: Option<OldBlock>,
}

impl Olds {
    /// Opens what is at `locations`. Nothing of it is verified: what is read of it is compared with the digests of new
    /// content. An index that has no room in memory is stored in `folder`.
    pub(crate) fn open(
        locations: &[Location],
        function: &LeafFunction,
        options: &OpenOptions,
        folder: &Path,
    ) -> (Self, Vec<Unshared>) {
        let (mut contents, mut unshared) = (Vec::new(), Vec::new());
        let mut builder = Builder::new(folder);
        let mut first = 0;
        for location in locations {
            match open(location, function, options) {
                Ok((leaves, data)) => {
                    contents.push(Old { first, data });
                    let indexed = index(location, &leaves, first, &mut builder);
                    unshared.extend(indexed.err().map(|error| unusable(location, error)));
                    // With a number between them, so that no run of blocks is in two.
                    first += leaves.count() + 1;
                }
                Err(refused) => unshared.push(refused),
            }
        }
        let index = builder.finish().unwrap_or_else(|error| {
            let again = || Error::io(folder, io::Error::new(error.kind(), error.to_string()));
            unshared.extend(locations.iter().map(|location| unusable(location, again())));
            Index::default()
        });
        let function = function.clone();
        let olds = Self {
            function,
            contents,
            index,
        };
        (olds, unshared)
    }

    /// What the digests are made with.
    pub(crate) fn function(&self) -> &LeafFunction {
        &self.function
    }

    /// Where blocks may be that have these digests, one after the other, and are to be looked for.
    pub(crate) fn find(
        &self,
        blocks: Range<u64>,
        digests: &[u8],
        is_wanted: impl Fn(u64) -> bool,
    ) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut next = None;
        let digests = digests.chunks_exact(self.function.digest_size());
        for (block, digest) in blocks.zip(digests) {
            let old = match is_wanted(block) {
                true => self.index.find(digest).map(OldBlock),
                false => None,
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

    /// Reads bytes from an offset in a block on, over the next ones, too. After the end of the data there are zeros.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn read(&self, at: OldBlock, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let number = self.contents.partition_point(|old| old.first <= at.0);
        let Some(Old { first, data }) = number.checked_sub(1).map(|last| &self.contents[last])
        else {
            return Err(ReadError::PastEnd {
                offset,
                len: buf.len(),
                size: 0,
            });
        };
        let start = (at.0 - first) * self.function.block_size() as u64 + offset;
        let stored = data.size().saturating_sub(start).min(buf.len() as u64);
        let (stored, beyond) = buf.split_at_mut(stored as usize);
        data.read_exact_at(stored, start)?;
        beyond.fill(0);
        Ok(())
    }
}

/// Opens the tree and the data of what is at `location`, if its blocks can be compared by digests of `function`.
fn open(
    location: &Location,
    function: &LeafFunction,
    options: &OpenOptions,
) -> Result<(Leaves, Arc<dyn ReadAt>), Unshared> {
    let (leaves, data) = find(location, options).map_err(|error| unusable(location, error))?;
    match leaves.function() == function {
        true => Ok((leaves, data)),
        false => Err(Unshared {
            location: location.clone(),
            reason: UnsharedReason::OtherFunction,
        }),
    }
}

fn unusable(location: &Location, error: Error) -> Unshared {
    Unshared {
        location: location.clone(),
        reason: UnsharedReason::Unusable(error),
    }
}

/// The digests and the data of what is at `location`, with a seal in either format that is not compared with anything.
fn find(location: &Location, options: &OpenOptions) -> Result<(Leaves, Arc<dyn ReadAt>), Error> {
    let place = Place::new(location.clone(), &options.clone().without_places());
    let (source, _) = place.content()?;
    match Accepted::OwnSeal.find(&place, source.clone()) {
        Ok(seal) => Ok((seal.leaves(), seal.data().clone())),
        // That of a tree of dm-verity is known to its users only.
        Err(error) => match find_hash_area(&place, source) {
            Ok(area) => Ok((area.leaves_unverified(), area.data_unverified().clone())),
            Err(_) => Err(error),
        },
    }
}

/// Adds the digests of what is at `location` to an index, the first of which is that of the block `first`.
fn index(
    location: &Location,
    leaves: &Leaves,
    first: u64,
    builder: &mut Builder<'_>,
) -> Result<(), Error> {
    // A sparse file can claim any size.
    let count = leaves.count().min(builder.room());
    for start in (0..count).step_by(READ) {
        let end = count.min(start + READ as u64);
        let digests = leaves.read(start..end);
        let digests = digests.map_err(|error| Error::read(location, error))?;
        let digests = digests.chunks_exact(leaves.function().digest_size());
        for (digest, block) in digests.zip(first + start..) {
            let added = builder.add(digest, block);
            added.map_err(|error| Error::io(builder.folder(), error))?;
        }
    }
    Ok(())
}
