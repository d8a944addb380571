use std::{ops::Range, sync::Arc};

use verimount_source::{Fetch, ReadAt, ReadError, Unchecked};

use crate::{BlockHasher, TreeGeometry};

/// The digests of data blocks as a stored tree has them: nothing of it is verified, so what is compared with them is not,
/// either.
#[derive(Clone)]
pub struct Leaves {
    tree: Arc<dyn Fetch>,
    function: BlockHasher,
    /// Where the first digest is in the tree. The others follow without a gap, as their size divides that of blocks.
    start: u64,
    count: u64,
}

impl Leaves {
    pub(crate) fn new(
        tree: Arc<dyn Fetch>,
        function: BlockHasher,
        geometry: &TreeGeometry,
    ) -> Self {
        let (start, count) = match geometry.levels() {
            0 => (0, 0),
            _ => (geometry.node_offset(0, 0), geometry.data_blocks()),
        };
        Self {
            tree,
            function,
            start,
            count,
        }
    }

    /// What they are made with.
    pub fn function(&self) -> &BlockHasher {
        &self.function
    }

    /// How many there are: one for each data block, and none for data of a single block, which has no tree.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The digests of some blocks, one after the other.
    ///
    /// # Errors
    /// Those of reading; [`ReadError::PastEnd`] for blocks that are not there.
    pub fn read(&self, blocks: Range<u64>) -> Result<Vec<u8>, ReadError> {
        let size = self.function.digest_size();
        let count = blocks.end.saturating_sub(blocks.start);
        if blocks.end > self.count {
            return Err(ReadError::PastEnd {
                offset: blocks.start,
                len: usize::try_from(count).unwrap_or(usize::MAX),
                size: self.count,
            });
        }
        let mut digests = vec![0; count as usize * size];
        let offset = self.start + blocks.start * size as u64;
        Unchecked(&*self.tree).read_exact_at(&mut digests, offset)?;
        Ok(digests)
    }
}
