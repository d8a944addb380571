//! Sealed files that are to be stored elsewhere.

use std::sync::Arc;

use verimount_content::{Place, Watch, registry::SealedContent};
use verimount_remote::registry::BlobDigest;
use verimount_source::Fetch;
use verimount_verity::Identity;

use crate::{
    Content, Error, FileKind, FoundFormat, Location, OpenOptions, describe,
    fault::{ContentFault, Fault},
    verify::verify_watched,
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

impl SoundFile {
    /// Opens a file, whose seal may be in a sidecar, and verifies all of it.
    ///
    /// # Errors
    /// [`ContentFault::NotSealed`]; [`Fault::Damaged`] if not all bytes match the seal; [`ContentFault::Cancelled`] if `watch`
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
            return Err(ContentFault::NotSealed { sidecar }.at(location));
        };
        let content = sealed_content(&location, &seal.format)?;
        let accepting = match &content {
            SealedContent::FsVerity { digest, .. } => options.clone().digest(*digest),
            SealedContent::DmVerity { root, .. } => options.clone().root_hash((*root).into()),
        };
        let opened = Content::open(&location, &accepting)?;
        let report = verify_watched(&opened, watch)?;
        if !report.is_good() {
            return Err(Fault::Damaged.at(location));
        }
        let place = |location: &Location| Place::new(location.clone(), &options.places);
        let open = |location: &Location| Ok::<_, Error>(place(location).content()?.0);
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

/// What the seal of a file says its content is.
fn sealed_content(location: &Location, seal: &FoundFormat) -> Result<SealedContent, Error> {
    match seal {
        FoundFormat::FsVerity(sealed) => Ok(SealedContent::FsVerity {
            digest: sealed.file_digest(),
            block_log2: sealed.descriptor().params().block_size.log2(),
        }),
        FoundFormat::DmVerity(area) => {
            let root = area.root_hash_unverified();
            let root = root.map_err(|error| ContentFault::seal(location, error))?;
            // The tree of a single block is empty.
            let root = root.ok_or_else(|| ContentFault::NotNamed.at(location))?;
            let superblock = BlobDigest::of(area.head());
            Ok(SealedContent::DmVerity { root, superblock })
        }
    }
}
