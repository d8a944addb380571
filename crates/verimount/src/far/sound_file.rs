//! Sealed files that are to be stored elsewhere.

use std::sync::Arc;

use verimount_remote::registry::BlobDigest;
use verimount_source::Fetch;
use verimount_verity::{Digest, FileDigest, Identity};

use crate::{
    Content, Error, FileKind, FoundFormat, Location, OpenOptions, describe, fault::Fault,
    progress::Watch, verify::verify_watched,
};

/// A sealed file that matches its seal.
pub(crate) struct SoundFile {
    pub(crate) location: Location,
    pub(crate) kind: FileKind,
    pub(crate) content: SealedContent,
    /// What readers must know to accept it.
    pub(crate) identity: Identity,
    /// The whole file.
    pub(crate) data: Arc<dyn Fetch>,
    /// The file with its seal, if that is another one.
    pub(crate) seal: Option<Arc<dyn Fetch>>,
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
    /// [`Fault::NotSealed`]; [`Fault::Damaged`] if not all bytes match the seal; [`Fault::Cancelled`] if `watch`
    /// ends it; those of opening.
    pub(crate) fn open(
        location: Location,
        sidecar: Option<Location>,
        watch: &mut Watch<'_>,
    ) -> Result<Self, Error> {
        let options = OpenOptions::new().sidecar(sidecar);
        let found = describe(&location, &options)?;
        let Some(seal) = &found.seal else {
            let sidecar = location.sidecar();
            return Err(Fault::NotSealed { sidecar }.at(location));
        };
        let content = SealedContent::of(&location, &seal.format)?;
        let opened = Content::open(&location, &content.accepted_by(options.clone()))?;
        let report = verify_watched(&opened, watch)?;
        if !report.is_good() {
            return Err(Fault::Damaged.at(location));
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
                let root = root.ok_or_else(|| Fault::NotNamed.at(location))?;
                let superblock = BlobDigest::of(area.head());
                Ok(Self::DmVerity { root, superblock })
            }
        }
    }

    fn accepted_by(&self, options: OpenOptions) -> OpenOptions {
        match self {
            Self::FsVerity { digest, .. } => options.digest(*digest),
            Self::DmVerity { root, .. } => options.root_hash((*root).into()),
        }
    }
}
