//! What content is verified with.

use std::{borrow::Cow, sync::Arc};

use verimount_source::ReadAt;
use verimount_verity::{
    Error, Leaves, Sealed, Trust, VerifiedReader, VerifyOptions, dm_verity::HashArea,
};

use crate::RootHash;

/// A seal that was found, and the content that it belongs to. Nothing of either is verified yet.
#[derive(Clone)]
pub(crate) enum OpenedSeal {
    FsVerity(Sealed),
    DmVerity { area: HashArea, root: RootHash },
}

impl OpenedSeal {
    /// All of it but the tree: a descriptor and its signature, or a superblock.
    pub(crate) fn head(&self) -> Cow<'_, [u8]> {
        match self {
            Self::FsVerity(sealed) => sealed.head().into(),
            Self::DmVerity { area, .. } => area.head().into(),
        }
    }

    /// What says how content and tree are to be read: two seals with the same are of the same content.
    pub(crate) fn meaning(&self) -> Vec<u8> {
        match self {
            Self::FsVerity(sealed) => sealed.file_digest().to_string().into_bytes(),
            Self::DmVerity { area, root } => [&root.hash, area.head()].concat(),
        }
    }

    /// How many bytes its data and its tree have.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let geometry = match self {
            Self::FsVerity(sealed) => sealed.descriptor().geometry(),
            Self::DmVerity { area, .. } => area.geometry(),
        };
        (geometry.data_size(), geometry.tree_size())
    }

    pub(crate) fn data(&self) -> &Arc<dyn ReadAt> {
        match self {
            Self::FsVerity(sealed) => sealed.data_unverified(),
            Self::DmVerity { area, .. } => area.data_unverified(),
        }
    }

    pub(crate) fn tree(&self) -> &Arc<dyn ReadAt> {
        match self {
            Self::FsVerity(sealed) => sealed.tree_unverified(),
            Self::DmVerity { area, .. } => area.tree_unverified(),
        }
    }

    /// The digests of data blocks in its tree.
    pub(crate) fn leaves(&self) -> Leaves {
        match self {
            Self::FsVerity(sealed) => sealed.leaves_unverified(),
            Self::DmVerity { area, .. } => area.leaves_unverified(),
        }
    }

    /// A reader of what was accepted.
    ///
    /// # Errors
    /// Those of reading, and if its root hash is not that of the tree.
    pub(crate) fn reader(self, options: VerifyOptions) -> Result<VerifiedReader, Error> {
        match self {
            Self::FsVerity(sealed) => VerifiedReader::new(&sealed, &Trust::Unpinned, options),
            Self::DmVerity { area, root } => area.verified(&root.hash, options),
        }
    }

    /// The same, but data and tree are read from others of the same sizes.
    pub(crate) fn with_sources(self, data: Arc<dyn ReadAt>, tree: Arc<dyn ReadAt>) -> Self {
        match self {
            Self::FsVerity(sealed) => Self::FsVerity(sealed.with_sources(data, tree)),
            Self::DmVerity { area, root } => Self::DmVerity {
                area: area.with_sources(data, tree),
                root,
            },
        }
    }
}
