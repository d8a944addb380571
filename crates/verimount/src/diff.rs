use std::{
    ops::{ControlFlow, Range},
    path::PathBuf,
};

use verimount_content::{Olds, Runs, Trust};
use verimount_source::{LARGEST_STEP, ReadError};
use verimount_tree::{Error as TreeError, FilePlace, PlaceKind};
use verimount_verity::VerifiedReader;

use crate::{
    Content, Error, Location, OpenOptions, Unshared, UnsharedReason, fault::ContentFault,
    image_format::open_damaged,
};

/// How many digests are compared at a time.
const COMPARED: usize = 1 << 14;

/// The most files that are named.
const MOST_FILES: usize = 100_000;

/// What of new content is not in older content, by [`diff`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Difference {
    /// Whether blocks can be compared: both trees are made with the same hash, block size and salt. If not, everything is
    /// new.
    pub is_comparable: bool,
    /// The size of a block in bytes.
    pub block_size: u64,
    /// How many blocks the new content has.
    pub blocks: u64,
    /// How many of them are not in the older content.
    pub new_blocks: u64,
    /// Where they are in the new content, in bytes.
    pub new: Vec<Range<u64>>,
    /// How many bytes the new content has, without its tree.
    pub size: u64,
    /// How many bytes its tree has.
    pub tree_size: u64,
    /// How many bytes are asked for to get the new blocks: more than they have, where that saves requests.
    pub fetched: u64,
    /// In how many ranges they are.
    pub fetched_ranges: u64,
    /// How many requests that takes, without those for the tree: several for a range of more than 16 MiB.
    pub requests: u64,
    /// The files of the new image whose contents have new blocks, with their paths from the root: the first 100,000. A block
    /// has the contents of several files, if they are small.
    pub files: Vec<PathBuf>,
    /// Whether these are all of them.
    pub names_all: bool,
    /// How many further files have nothing but metadata in new blocks, such as where their contents are now.
    pub other_files: usize,
    /// Why some of them could not be named.
    pub unnamed: Option<TreeError>,
}

/// Compares content with older content by their trees. Of the data, only that which names the files of an image is read.
///
/// Nothing of the older content is verified, as what is wrong there would be fetched. `options` say how it is reached.
///
/// ```
/// # use verimount::{SealOptions, seal};
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # std::fs::write("old", vec![7; 100_000])?;
/// # std::fs::write("new", [&vec![7; 8192][..], &[8; 4096]].concat())?;
/// # seal("old", &SealOptions::default())?;
/// # seal("new", &SealOptions::default())?;
/// use verimount::{Content, OpenOptions, diff};
///
/// let options = OpenOptions::new().unpinned();
/// let new = Content::open("new", &options)?;
/// assert_eq!(diff("old", &new, &options)?.new, [8192..12288]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`NotTrusted`](crate::ErrorKind::NotTrusted) if nothing of the new content is verified; those of opening the older content,
/// and of reading the trees.
pub fn diff<L: TryInto<Location>>(
    old: L,
    new: &Content,
    options: &OpenOptions,
) -> Result<Difference, Error>
where
    Error: From<L::Error>,
{
    let old = old.try_into()?;
    let reader = new.opened.reader.as_deref();
    let reader = reader.ok_or_else(|| ContentFault::Unverified.at(&new.opened.location))?;
    let options = &options
        .for_content(&new.opened.location, &Trust::Unverified)
        .places;
    let folder = options.access.folder();
    let (olds, unshared) = Olds::open(&[old], reader.leaf_function(), options, &folder);
    let mut is_comparable = true;
    for Unshared { reason, .. } in unshared {
        match reason {
            UnsharedReason::Unusable(error) | UnsharedReason::UsablePartly(error) => {
                return Err(error);
            }
            _ => is_comparable = false,
        }
    }
    let fresh =
        missing(&olds, reader).map_err(|error| ContentFault::read(&new.opened.location, error))?;
    let (block_size, geometry) = (
        reader.leaf_function().block_size() as u64,
        reader.geometry(),
    );
    let bytes = |blocks: Range<u64>| {
        blocks.start * block_size..(blocks.end * block_size).min(geometry.data_size())
    };
    let asked = fresh.asked_for(block_size, geometry.tree_size());
    let asked: Vec<u64> = asked
        .iter()
        .map(bytes)
        .map(|range| range.end - range.start)
        .collect();
    let mut difference = Difference {
        is_comparable,
        block_size,
        blocks: geometry.data_blocks(),
        new_blocks: fresh.blocks(),
        new: fresh.iter().map(bytes).collect(),
        size: geometry.data_size(),
        tree_size: geometry.tree_size(),
        fetched: asked.iter().sum(),
        fetched_ranges: asked.len() as u64,
        requests: asked.iter().map(|len| len.div_ceil(LARGEST_STEP)).sum(),
        files: Vec::new(),
        names_all: true,
        other_files: 0,
        unnamed: None,
    };
    difference.name_files(new);
    Ok(difference)
}

/// The blocks that are not in older content.
fn missing(olds: &Olds, reader: &VerifiedReader) -> Result<Runs, ReadError> {
    let blocks = reader.geometry().data_blocks();
    let mut missing = Runs::default();
    for start in (0..blocks).step_by(COMPARED) {
        let range = start..blocks.min(start + COMPARED as u64);
        let digests = reader.leaves(range.clone())?;
        let parts = olds.find(range, &digests, |_| true).into_iter();
        missing.extend(
            parts
                .filter(|part| part.old.is_none())
                .map(|part| part.blocks),
        );
    }
    Ok(missing)
}

impl Difference {
    /// Finds the files that have new blocks.
    fn name_files(&mut self, content: &Content) {
        let tree = match open_damaged(content.opened.source.clone()) {
            Ok(Some(tree)) => tree,
            Ok(None) => return,
            Err(error) => {
                self.unnamed = Some(error);
                return;
            }
        };
        let mut changed = Changed::default();
        // It ends early only if there are too many.
        let _ = tree.walk_places(&mut |found| {
            match found {
                Ok(place) if overlaps(&self.new, &place.range) => changed.add(&place),
                Ok(_) => {}
                Err(error) => drop(self.unnamed.get_or_insert(error)),
            }
            if changed.files.len() < MOST_FILES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        self.names_all = changed.files.len() < MOST_FILES;
        (self.files, self.other_files) = changed.finish();
    }
}

/// Files with new blocks. Their places come file by file.
#[derive(Default)]
struct Changed {
    files: Vec<PathBuf>,
    others: usize,
    /// The last one, and whether any of its contents is new.
    last: Option<(PathBuf, bool)>,
}

impl Changed {
    /// Adds a new place.
    fn add(&mut self, place: &FilePlace<'_>) {
        let is_content = place.kind == PlaceKind::Content;
        match &mut self.last {
            Some((path, has_content)) if path == place.path => *has_content |= is_content,
            _ => {
                self.end_file();
                self.last = Some((place.path.to_owned(), is_content));
            }
        }
    }

    fn end_file(&mut self) {
        match self.last.take() {
            Some((path, true)) => self.files.push(path),
            Some((_, false)) => self.others += 1,
            None => {}
        }
    }

    /// The files with new contents in the order of their paths, and the number of others.
    fn finish(mut self) -> (Vec<PathBuf>, usize) {
        self.end_file();
        self.files.sort();
        (self.files, self.others)
    }
}

/// Whether one of the ranges, which are in order, overlaps another one.
fn overlaps(ranges: &[Range<u64>], with: &Range<u64>) -> bool {
    let first = ranges.partition_point(|range| range.end <= with.start);
    !with.is_empty()
        && ranges
            .get(first)
            .is_some_and(|range| range.start < with.end)
}
