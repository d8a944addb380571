use std::{fmt, sync::Arc};

use verimount_source::{Ask, Fetch, Given};

use crate::{
    Digest, Error, Identity, Leaves, TreeGeometry, further::Further, hasher::topmost_digest,
    params::Hashing,
};

/// A seal that was accepted, of either format: data and the Merkle tree over it as they are stored, and the digest that both
/// are verified against when they are read.
#[derive(Clone)]
pub struct Seal {
    pub(crate) identity: Identity,
    pub(crate) root: Digest,
    pub(crate) hashing: Hashing,
    pub(crate) geometry: TreeGeometry,
    pub(crate) head: Arc<[u8]>,
    pub(crate) data: Arc<dyn Fetch>,
    pub(crate) tree: Arc<dyn Fetch>,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Seal").field(&self.identity).finish()
    }
}

impl Seal {
    /// The digest that data is verified against.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// All of the seal but the tree: the descriptor and its signature, or the superblock.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The shape of the tree.
    pub fn geometry(&self) -> &TreeGeometry {
        &self.geometry
    }

    /// Whether another seal is of the same data, and has the same tree.
    pub fn is_of_same_content(&self, other: &Self) -> bool {
        // A root hash covers neither the size of the data nor that of blocks.
        self.identity == other.identity
            && self.hashing == other.hashing
            && self.geometry.data_size() == other.geometry.data_size()
    }

    /// The stored data.
    pub fn data_unverified(&self) -> &Arc<dyn Fetch> {
        &self.data
    }

    /// The stored tree.
    pub fn tree_unverified(&self) -> &Arc<dyn Fetch> {
        &self.tree
    }

    /// The digests of data blocks in the stored tree.
    pub fn leaves_unverified(&self) -> Leaves {
        Leaves::new(
            self.tree.clone(),
            self.hashing.data_hasher(),
            &self.geometry,
        )
    }

    /// This seal, whose data and tree are read from other sources of the same sizes.
    #[must_use]
    pub fn with_sources(self, data: Arc<dyn Fetch>, tree: Arc<dyn Fetch>) -> Self {
        Self { data, tree, ..self }
    }

    /// Checks the topmost block of a tree whose root hash was given, to distinguish a wrong root hash from damage.
    pub(crate) fn check_root(&self) -> Result<(), Error> {
        let Identity::RootHash(expected) = self.identity else {
            return Ok(());
        };
        let block_size = 1 << self.hashing.hash_block_log2;
        let (mut given, mut further) = (Given::default(), Further::default());
        loop {
            let ask = Ask::after(&given);
            let topmost = topmost_digest(&*self.tree, &self.hashing, &self.geometry, ask)?;
            let Some((actual, later)) = topmost.filter(|(actual, _)| *actual != expected) else {
                return Ok(());
            };
            given.add(later);
            if !further.is_worth_it(|| self.tree.distrust(0..block_size, &given)) {
                return Err(Error::WrongRootHash {
                    expected: Box::new(expected),
                    actual: Box::new(actual),
                });
            }
        }
    }
}
