//! Storing in container registries.

use std::sync::Arc;

use verimount_content::{
    Watch,
    registry::{EMPTY_CONFIG, NewLayers, RegistryImage, hashed},
    step,
};
use verimount_remote::{
    Error as RemoteError,
    registry::{BlobDigest, Reference, Repository},
};
use verimount_source::{Fetch, Unchecked};

use crate::{
    Error, FileKind, Location, Step,
    far::{Pushed, sound_file::SoundFile},
    fault::ContentFault,
};

/// The media type of files that are not images.
const OTHER_TYPE: &str = "application/octet-stream";

/// A blob of the new manifest.
struct Blob {
    source: Arc<dyn Fetch>,
    digest: BlobDigest,
}

/// Stores a file under the name `to`, which has a tag. What the registry has already is not sent again.
pub(crate) fn push(
    file: SoundFile,
    to: &RegistryImage,
    repository: &Repository,
    watch: &mut Watch<'_>,
) -> Result<Pushed, Error> {
    let location = file.location;
    let data = Blob::new(file.data, &location, watch)?;
    let seal = match file.seal {
        Some(seal) => Some(Blob::new(seal, &location, watch)?),
        None => None,
    };
    let layers = NewLayers {
        media_type: media_type(&file.kind),
        data: data.descriptor(),
        seal: seal.as_ref().map(Blob::descriptor),
        title: location.file_name().to_str().map(str::to_owned),
        content: file.content,
    };
    let config = Blob {
        source: Arc::new(EMPTY_CONFIG.to_vec()),
        digest: BlobDigest::of(EMPTY_CONFIG),
    };
    let name = to.reference();
    let blobs = [config, data].into_iter().chain(seal).collect();
    let stored = store(repository, name, blobs, &layers, watch);
    let digest = stored.map_err(|error| match error {
        RemoteError::Closed => ContentFault::Cancelled.at(location),
        error => to.failed(error),
    })?;
    Ok(Pushed {
        location: RegistryImage::new(name.with_digest(digest)).location(),
        identity: file.identity,
    })
}

fn media_type(kind: &FileKind) -> &'static str {
    match kind {
        FileKind::Image(image) => image.media_type,
        _ => OTHER_TYPE,
    }
}

/// Sends what the registry does not have, and the manifest last, so that there is never one without its
/// blobs.
fn store(
    repository: &Repository,
    to: &Reference,
    blobs: Vec<Blob>,
    layers: &NewLayers,
    watch: &mut Watch<'_>,
) -> Result<BlobDigest, RemoteError> {
    let mut missing = Vec::new();
    for blob in blobs {
        if !repository.has_blob(blob.digest)? {
            missing.push(blob);
        }
    }
    let total = missing.iter().map(|blob| blob.source.length()).sum();
    let mut progress = step(watch, Step::Upload, total);
    for blob in missing {
        repository.upload(blob.digest, &Unchecked(&*blob.source), &mut progress)?;
    }
    repository.store_manifest(to, &layers.manifest())
}

impl Blob {
    fn new(
        source: Arc<dyn Fetch>,
        location: &Location,
        watch: &mut Watch<'_>,
    ) -> Result<Self, Error> {
        let mut progress = step(watch, Step::Hash, source.length());
        let digest = hashed(&Unchecked(&*source), location, |bytes| {
            ContentFault::if_ended(progress(bytes.len() as u64)).map_err(|fault| fault.at(location))
        })?;
        drop(progress);
        Ok(Self { source, digest })
    }

    fn descriptor(&self) -> (BlobDigest, u64) {
        (self.digest, self.source.length())
    }
}
