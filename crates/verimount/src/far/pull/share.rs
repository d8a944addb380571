//! Taking blocks from older content.

use std::{iter, ops::Range};

use verimount_content::{Accepted, Olds, Options, Part, Place, Runs, Watch, reader, step};
use verimount_source::{ReadAt, Scratch, all_processors, in_order};
use verimount_verity::VerifiedReader;

use super::{Fetched, Remote};
use crate::{Error, Step, Unshared, fault::ContentFault};

/// How many blocks are compared and copied at a time.
const CHUNK: u64 = 256;

/// Fetches content, as far as it is not in the older content that `options` name. Returns how many bytes were there, and
/// of which older content nothing was used.
///
/// `there` is where it comes from, and `here` the file into which it is fetched, with its seal if that is another file.
pub(super) fn share(
    data: &Fetched,
    from: &Remote,
    (there, here): (&Place, &Place),
    accepted: &Accepted,
    options: &Options,
    watch: &mut Watch<'_>,
) -> Result<(u64, Vec<Unshared>), Error> {
    // All behind the data: the tree, if it is in the same file.
    let seal = accepted.find(there, from.source.clone())?;
    let size = seal.geometry().data_size();
    data.fetch(iter::once(size..from.source.length()), from, watch)?;
    // From here on, the tree is read from where it has been copied to.
    let (source, _) = here.content()?;
    let seal = accepted.find(here, source)?;
    let reader = reader(there.location(), seal, Default::default())?;
    let function = reader.leaf_function();
    let (olds, unshared) = Olds::open(&options.like, function, options, data.folder());
    let sharing = Sharing {
        data,
        reader: &reader,
        olds: &olds,
    };
    let missing = sharing.copy_all(watch)?;
    let (block_size, tree_size) = (sharing.block_size(), reader.geometry().tree_size());
    let ranges = missing.asked_for(block_size, tree_size);
    let ranges = ranges.iter().map(|blocks| sharing.bytes(&blocks));
    data.fetch(ranges.collect::<Vec<_>>(), from, watch)?;
    let missing: u64 = missing
        .iter()
        .map(|blocks| len(&sharing.bytes(&blocks)))
        .sum();
    Ok((size - missing, unshared))
}

fn len(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// New content whose tree is here, and older content.
struct Sharing<'a> {
    data: &'a Fetched,
    /// Its digests only.
    reader: &'a VerifiedReader,
    olds: &'a Olds,
}

impl Sharing<'_> {
    fn block_size(&self) -> u64 {
        self.olds.function().block_size() as u64
    }

    fn bytes(&self, blocks: &Range<u64>) -> Range<u64> {
        let size = self.block_size();
        blocks.start * size..(blocks.end * size).min(self.reader.size())
    }

    /// Copies all blocks that are in older content, and returns the others.
    fn copy_all(&self, watch: &mut Watch<'_>) -> Result<Runs, Error> {
        let blocks = self.reader.geometry().data_blocks();
        let chunk = |number| number * CHUNK..blocks.min((number + 1) * CHUNK);
        let mut progress = step(watch, Step::Compare, self.reader.size());
        let mut missing = Runs::default();
        in_order(
            blocks.div_ceil(CHUNK),
            all_processors(),
            |number, scratch| self.copy(chunk(number), scratch),
            |number, copied| {
                missing.extend(copied?.iter());
                let done = len(&self.bytes(&chunk(number)));
                ContentFault::if_ended(progress(done)).map_err(ContentFault::somewhere)
            },
        )?;
        Ok(missing)
    }

    fn copy(&self, blocks: Range<u64>, scratch: &mut Scratch) -> Result<Runs, Error> {
        let mut missing = Runs::default();
        // A tree that does not match is reported when everything is verified.
        let Ok(digests) = self.reader.leaves(blocks.clone()) else {
            missing.add(blocks);
            return Ok(missing);
        };
        let digest_size = self.olds.function().digest_size();
        let first = blocks.start;
        for part in self.olds.find(blocks, &digests, |_| true) {
            let at = |block| (block - first) as usize * digest_size;
            let expected = &digests[at(part.blocks.start)..at(part.blocks.end)];
            missing.extend(self.copy_part(&part, expected, scratch)?.iter());
        }
        Ok(missing)
    }

    /// Copies those blocks of a part that match.
    fn copy_part(
        &self,
        part: &Part,
        expected: &[u8],
        scratch: &mut Scratch,
    ) -> Result<Runs, Error> {
        let mut missing = Runs::default();
        let size = self.block_size() as usize;
        let buf = scratch.grown((part.blocks.end - part.blocks.start) as usize * size);
        let is_read = part
            .old
            .is_some_and(|old| self.olds.read(old, 0, buf).is_ok());
        if !is_read {
            missing.add(part.blocks.clone());
            return Ok(missing);
        }
        let function = self.olds.function();
        let actual = function.digests(buf);
        let digest_size = function.digest_size();
        let pairs = actual
            .chunks_exact(digest_size)
            .zip(expected.chunks_exact(digest_size));
        let mut good = Runs::default();
        for (block, (actual, expected)) in part.blocks.clone().zip(pairs) {
            if actual == expected {
                good.add(block..block + 1);
            } else {
                missing.add(block..block + 1);
            }
        }
        for run in good.iter() {
            let bytes = self.bytes(&run);
            let start = (run.start - part.blocks.start) as usize * size;
            self.data
                .write(&buf[start..start + len(&bytes) as usize], bytes.start)?;
        }
        Ok(missing)
    }
}
