use std::{
    fmt, io,
    sync::{Arc, OnceLock},
};

use verimount_remote::{
    RemoteFile, Session,
    registry::{Reference, Repository, Rights},
};

use super::layers::Layers;
use crate::{Error, Location, Trust};

/// Sealed content in a registry, or its seal.
///
/// All clones share one manifest, which is fetched when it is needed first: if the tag is moved meanwhile,
/// data and seal still belong together.
#[derive(Clone)]
pub struct RegistryImage {
    reference: Arc<Reference>,
    plain_http: bool,
    part: Part,
    found: Arc<OnceLock<Found>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Data,
    Seal,
}

pub(super) struct Found {
    pub(super) repository: Repository,
    pub(super) layers: Layers,
}

impl RegistryImage {
    /// The content with this name. Nothing is fetched yet.
    pub fn new(reference: Reference) -> Self {
        Self {
            reference: reference.into(),
            plain_http: false,
            part: Part::Data,
            found: Arc::default(),
        }
    }

    /// The same, from a registry that is spoken to without encryption, and without credentials, if
    /// `plain_http` says so. Those on this machine always are, with credentials.
    #[must_use]
    pub fn with_plain_http(self, plain_http: bool) -> Self {
        Self {
            plain_http,
            found: Arc::default(),
            ..self
        }
    }

    /// Its name.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    pub(super) fn found(&self, session: &Session) -> Result<&Found, Error> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let repository = Repository::new(&self.reference, Rights::Pull, self.plain_http, session);
        let (manifest, _) = repository
            .manifest(&self.reference)
            .map_err(|error| self.failed(error))?;
        let layers = Layers::of(manifest).map_err(|source| Error::Layers {
            at: Location::Registry(self.clone()),
            source,
        })?;
        Ok(self.found.get_or_init(|| Found { repository, layers }))
    }

    /// Opens the layer.
    pub(crate) fn open(&self, session: &Session) -> Result<RemoteFile, Error> {
        let Found { repository, layers } = self.found(session)?;
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

    /// Whether the seal is a layer of its own; `None` if the manifest was not needed yet.
    pub(crate) fn has_seal(&self) -> Option<bool> {
        let found = self.found.get()?;
        Some(self.part == Part::Data && found.layers.seal.is_some())
    }

    /// The content that the manifest names.
    pub(crate) fn named(&self, session: &Session) -> Result<Option<Trust>, Error> {
        Ok(self.found(session)?.layers.named.clone())
    }

    pub(super) fn failed(&self, error: impl Into<io::Error>) -> Error {
        Error::io(Location::Registry(self.clone()), error.into())
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
