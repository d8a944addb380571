//! Sealed files that are to be stored elsewhere.

use std::sync::Arc;

use verimount_remote::registry::BlobDigest;
use verimount_source::ReadAt;
use verimount_verity::{Digest, FileDigest, Identity};

use crate::{
    Error, FileKind, FoundFormat, Location, OpenOptions, RootHash, Trust, Watch, describe, open,
    verify,
};

/// A sealed file that matches its seal.
pub(crate) struct SoundFile {
    pub(crate) location: Location,
    pub(crate) kind: FileKind,
    pub(crate) content: SealedContent,
    /// What readers must know to accept it.
    pub(crate) identity: Identity,
    /// The whole file.
    pub(crate) data: Arc<dyn ReadAt>,
    /// The file with its seal, if that is another one.
    pub(crate) seal: Option<Arc<dyn ReadAt>>,
}

/// What a seal says that the content is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SealedContent {
    FsVerity {
        digest: FileDigest,
        /// The binary logarithm of the size of a block.
        block_log2: u8,
    },
    DmVerity {
        root: Digest,
        superblock: BlobDigest,
    },
}

impl SoundFile {
    /// Opens a file, whose seal may be in a sidecar, and verifies all of it.
    ///
    /// # Errors
    /// [`Error::NotSealed`]; [`Error::Damaged`] if not all bytes match the seal; [`Error::Cancelled`] if `watch`
    /// ends it; any other [`Error`] of opening.
    pub(crate) fn open(
        location: Location,
        sidecar: Option<Location>,
        watch: &mut Watch<'_>,
    ) -> Result<Self, Error> {
        let options = OpenOptions {
            sidecar,
            ..OpenOptions::default()
        };
        let found = describe(&location, &options)?;
        let Some(seal) = &found.seal else {
            return Err(Error::NotSealed {
                sidecar: location.sidecar(),
                at: location,
            });
        };
        let content = SealedContent::of(&location, &seal.format)?;
        let report = verify(&open(&location, &content.trust(), &options)?, watch)?;
        if !report.is_good() {
            return Err(Error::Damaged { at: location });
        }
        let open = |location: &Location| Ok::<_, Error>(location.open(&options.access)?.0);
        Ok(Self {
            data: open(&location)?,
            seal: seal.sidecar.as_ref().map(open).transpose()?,
            kind: found.kind,
            identity: report.identity,
            content,
            location,
        })
    }
}

impl SealedContent {
    fn of(location: &Location, seal: &FoundFormat) -> Result<Self, Error> {
        match seal {
            FoundFormat::FsVerity(sealed) => Ok(Self::FsVerity {
                digest: sealed.file_digest(),
                block_log2: sealed.descriptor().params().block_size.log2(),
            }),
            FoundFormat::DmVerity(area) => {
                let root = area.root_hash_unverified();
                let root = root.map_err(|error| Error::seal(location, error))?;
                // The tree of a single block is empty.
                let root = root.ok_or_else(|| Error::NotNamed {
                    at: location.clone(),
                })?;
                let superblock = BlobDigest::of(area.head());
                Ok(Self::DmVerity { root, superblock })
            }
        }
    }

    fn trust(&self) -> Trust {
        match self {
            Self::FsVerity { digest, .. } => (*digest).into(),
            Self::DmVerity { root, .. } => RootHash::from(*root).into(),
        }
    }
}
