//! Storing in object stores.

use verimount_content::{FarLocation, SIDECAR_SUFFIX, Watch, step};
use verimount_remote::{Error as RemoteError, Session, cloud::ObjectName};
use verimount_source::{Fetch, ReadAt, Unchecked};

use super::{Pushed, sound_file::SoundFile};
use crate::{
    Error, Step,
    fault::{ContentFault, Fault},
};

/// Stores a file as the object `to`, its seal first if that is in another file.
pub(super) fn push(
    file: SoundFile,
    to: &ObjectName,
    session: &Session,
    watch: &mut Watch<'_>,
) -> Result<Pushed, Error> {
    let at = |name: &ObjectName| FarLocation::Object(name.clone());
    let mut objects: Vec<(ObjectName, Unchecked<&dyn Fetch>)> = Vec::new();
    if let Some(seal) = &file.seal {
        let beside = to.with_suffix(SIDECAR_SUFFIX);
        let beside = beside.map_err(|_| Fault::NoSidecarName.at(at(to)))?;
        objects.push((beside, Unchecked(&**seal)));
    }
    objects.push((to.clone(), Unchecked(&*file.data)));
    let total = objects.iter().map(|(_, content)| content.size()).sum();
    let mut progress = step(watch, Step::Upload, total);
    for (name, content) in objects {
        let stored = session.store_object(&name, &content, &mut progress);
        stored.map_err(|error| match error {
            RemoteError::Closed => ContentFault::Cancelled.at(&file.location),
            error => ContentFault::io(at(&name), error.into()),
        })?;
    }
    Ok(Pushed {
        location: at(to).into(),
        identity: file.identity,
    })
}
