use std::{fmt, io, sync::Arc};

use thiserror::Error as ThisError;
use verimount_cache::Object;
use verimount_remote::{
    Error as RemoteError, RemoteFile,
    registry::{Descriptor, Manifest, Reference, Repository, Rights},
};

use super::{kept_manifest, layers::Layers};
use crate::{
    Error, Location,
    far::{Access, FarLocation},
    fault::Fault,
    trust::Named,
};

/// Sealed content in a registry, or its seal.
#[derive(Clone)]
pub struct RegistryImage {
    reference: Arc<Reference>,
    part: Part,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Data,
    Seal,
}

/// What the registry says of an image. If its tag is moved later, data and seal still belong together.
pub struct Found {
    repository: Repository,
    pub(crate) layers: Layers,
    /// The manifest in the cache, from where it is not removed as long as the content is used.
    _kept: Option<Object>,
}

/// Why it is not known what a tag stands for.
#[derive(Debug, ThisError)]
#[error("only the registry can tell what the tag stands for: {0}")]
struct UnknownTag(RemoteError);

impl RegistryImage {
    /// The content with this name. Nothing is fetched yet.
    pub fn new(reference: Reference) -> Self {
        Self {
            reference: reference.into(),
            part: Part::Data,
        }
    }

    /// Its name.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Asks the registry for the image.
    pub(crate) fn find(&self, access: &Access) -> Result<Found, Error> {
        let session = &access.session;
        let plain_http = access.plain_http;
        let repository = Repository::new(&self.reference, Rights::Pull, plain_http, session);
        let (manifest, kept) = self.manifest(&repository, access)?;
        let layers =
            Layers::of(manifest).map_err(|error| Fault::Layers(error).at(self.location()))?;
        Ok(Found {
            repository,
            layers,
            _kept: kept,
        })
    }

    /// The manifest, from the cache if it is named by its digest and there.
    fn manifest(
        &self,
        repository: &Repository,
        access: &Access,
    ) -> Result<(Manifest, Option<Object>), Error> {
        let named = self.reference.digest().zip(access.cache.as_ref());
        if let Some((digest, cache)) = named
            && let Some((bytes, object)) = kept_manifest::find(cache, digest)
            && let Ok(manifest) = Manifest::parse(&bytes)
        {
            return Ok((manifest, Some(object)));
        }
        let bytes = repository.manifest_bytes(&self.reference);
        let bytes = bytes.map_err(|error| self.not_found(error))?;
        let manifest = Manifest::parse(&bytes);
        let manifest = manifest.map_err(|error| self.failed(RemoteError::from(error)))?;
        let kept = named.and_then(|(digest, cache)| kept_manifest::keep(cache, digest, bytes));
        Ok((manifest, kept))
    }

    /// There is no manifest. Without the registry, only a digest could be enough.
    fn not_found(&self, error: RemoteError) -> Error {
        let is_away = matches!(
            error,
            RemoteError::Unreachable(_) | RemoteError::GaveUp { .. }
        );
        match self.reference.digest() {
            None if is_away => {
                let kind = io::Error::from(error.clone()).kind();
                self.failed(io::Error::new(kind, UnknownTag(error)))
            }
            _ => self.failed(error),
        }
    }

    /// Opens the layer.
    pub(crate) fn open(&self, found: &Found) -> Result<Arc<RemoteFile>, Error> {
        let Found {
            repository, layers, ..
        } = found;
        let layer = match (self.part, &layers.seal) {
            (Part::Data, _) => &layers.data,
            (Part::Seal, Some(seal)) => seal,
            (Part::Seal, None) => return Err(self.failed(io::ErrorKind::NotFound)),
        };
        repository.blob(layer).map_err(|error| self.failed(error))
    }

    /// The seal as a layer of its own.
    pub(crate) fn seal(&self) -> Self {
        Self {
            part: Part::Seal,
            ..self.clone()
        }
    }

    /// Where it is.
    pub fn location(&self) -> Location {
        FarLocation::Registry(self.clone()).into()
    }

    /// The error for what failed of it.
    pub fn failed(&self, error: impl Into<io::Error>) -> Error {
        Fault::io(self.location(), error.into())
    }
}

impl Found {
    /// The content that the manifest names.
    pub(crate) fn named(&self) -> Option<&Named> {
        self.layers.named.as_ref()
    }

    /// The layers with the data and, if it is another one, with the seal.
    pub fn layers(&self) -> (&Descriptor, Option<&Descriptor>) {
        let Layers { data, seal, .. } = &self.layers;
        (data, seal.as_ref())
    }

    /// Whether the seal is a layer of its own.
    pub(crate) fn has_seal(&self) -> bool {
        self.layers.seal.is_some()
    }
}

impl fmt::Display for RegistryImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Data => self.reference.fmt(f),
            Part::Seal => write!(f, "the seal of {}", self.reference),
        }
    }
}
