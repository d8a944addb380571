//! Sealed content in object stores.

use std::path::Path;

use verimount_remote::{Error as RemoteError, Session, cloud::ObjectName};
use verimount_source::ReadAt;
use verimount_verity::Identity;

use crate::{
    Error, Location, Step, Watch, location::SIDECAR_SUFFIX, progress::step, sound_file::SoundFile,
};

/// How a file is stored in an object store.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PushOptions {
    /// The file with the Merkle tree, if it is neither at the end of the file nor in `FILE.verity`.
    pub sidecar: Option<Location>,
    /// How the store is reached.
    pub session: Session,
}

/// Stores a sealed file as the object `to`; returns what readers must know to accept it. A seal in another file
/// is stored beside it, with `.verity` at the end of its key. It comes first, so that the content is never
/// there without its seal.
///
/// All of the file is verified before.
///
/// # Errors
/// [`Error::NotSealed`]; [`Error::Damaged`] if not all bytes match the seal; [`Error::Cancelled`] if `watch`
/// ends it; any other [`Error`] of opening, and of the store.
pub fn push(
    file: &Path,
    to: &ObjectName,
    options: &PushOptions,
    watch: &mut Watch<'_>,
) -> Result<Identity, Error> {
    let file = SoundFile::open(Location::from(file), options.sidecar.clone(), watch)?;
    let mut objects: Vec<(ObjectName, &dyn ReadAt)> = Vec::new();
    if let Some(seal) = &file.seal {
        let beside = to.with_suffix(SIDECAR_SUFFIX);
        let beside = beside.map_err(|_| Error::NoSidecarName {
            at: Location::Object(to.clone()),
        })?;
        objects.push((beside, &**seal));
    }
    objects.push((to.clone(), &*file.data));
    let total = objects.iter().map(|(_, content)| content.size()).sum();
    let mut progress = step(watch, Step::Upload, total);
    for (name, content) in objects {
        let stored = options.session.store_object(&name, content, &mut progress);
        stored.map_err(|error| match error {
            RemoteError::Closed => Error::Cancelled {
                at: file.location.clone(),
            },
            error => Error::io(Location::Object(name), error.into()),
        })?;
    }
    Ok(file.identity)
}
