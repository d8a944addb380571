use std::{path::Path, sync::Arc};

use verimount_remote::{
    Error as RemoteError, Session,
    registry::{BlobDigest, BlobHasher, Reference, Repository, Rights},
};
use verimount_source::ReadAt;
use verimount_verity::Identity;

use super::{
    RegistryImage,
    layers::{EMPTY_CONFIG, NewLayers},
};
use crate::{
    Error, FileKind, Location, Step, Watch, content::CHUNK, progress::step, sound_file::SoundFile,
};

/// The media type of EROFS images, also of containerd.
const EROFS_TYPE: &str = "application/vnd.erofs.layer.v1";

/// The media type of romfs images.
const ROMFS_TYPE: &str = "application/vnd.verimount.data.v1.romfs";

/// The media type of other files.
const OTHER_TYPE: &str = "application/octet-stream";

/// How a file is stored in a registry.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PushOptions {
    /// The file with the Merkle tree, if it is neither at the end of the file nor in `FILE.verity`.
    pub sidecar: Option<Location>,
    /// Speak to the registry without encryption, and without credentials.
    pub plain_http: bool,
    /// How the registry is reached.
    pub session: Session,
}

/// What was stored.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Pushed {
    /// Its name, with the digest of its manifest, which also pins the content.
    pub image: Reference,
    /// What readers must know of the content otherwise.
    pub identity: Identity,
}

/// A blob of the new manifest.
struct Blob {
    source: Arc<dyn ReadAt>,
    digest: BlobDigest,
}

/// Stores a sealed file in a registry, under the name `to`, which has a tag.
///
/// All of the file is verified before. What the registry has already is not sent again.
///
/// # Errors
/// [`Error::NotSealed`]; [`Error::Damaged`] if not all bytes match the seal; [`Error::Cancelled`] if `watch`
/// ends it; any other [`Error`] of opening, and of the registry.
pub fn push(
    file: &Path,
    to: &Reference,
    options: &PushOptions,
    watch: &mut Watch<'_>,
) -> Result<Pushed, Error> {
    let file = SoundFile::open(Location::from(file), options.sidecar.clone(), watch)?;
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
    let repository = Repository::new(to, Rights::Push, options.plain_http, &options.session);
    let blobs = [config, data].into_iter().chain(seal).collect();
    let stored = store(&repository, to, blobs, &layers, watch);
    let digest = stored.map_err(|error| match error {
        RemoteError::Closed => Error::Cancelled { at: location },
        error => RegistryImage::new(to.clone()).failed(error),
    })?;
    Ok(Pushed {
        image: to.with_digest(digest),
        identity: file.identity,
    })
}

fn media_type(kind: &FileKind) -> &'static str {
    match kind {
        FileKind::Image(image) if image.format == "erofs" => EROFS_TYPE,
        FileKind::Image(_) => ROMFS_TYPE,
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
    let total = missing.iter().map(|blob| blob.source.size()).sum();
    let mut progress = step(watch, Step::Upload, total);
    for blob in missing {
        repository.upload(blob.digest, &*blob.source, &mut progress)?;
    }
    repository.store_manifest(to, &layers.manifest())
}

impl Blob {
    fn new(
        source: Arc<dyn ReadAt>,
        location: &Location,
        watch: &mut Watch<'_>,
    ) -> Result<Self, Error> {
        let size = source.size();
        let mut progress = step(watch, Step::Hash, size);
        let mut hasher = BlobHasher::default();
        let mut buf = vec![0; CHUNK];
        let mut offset = 0;
        while offset < size {
            let len = (size - offset).min(CHUNK as u64);
            let buf = &mut buf[..len as usize];
            let read = source.read_exact_at(buf, offset);
            read.map_err(|error| Error::seal(location, error.into()))?;
            hasher.add(buf);
            offset += len;
            if progress(len).is_break() {
                let at = location.clone();
                return Err(Error::Cancelled { at });
            }
        }
        let digest = hasher.finish();
        Ok(Self { source, digest })
    }

    fn descriptor(&self) -> (BlobDigest, u64) {
        (self.digest, self.source.size())
    }
}
