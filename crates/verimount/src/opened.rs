use std::sync::Arc;

use verimount_serve::{Origin, Pin};
use verimount_source::{ReadAhead, ReadAt};
use verimount_tree::{SingleFile, StoredFile, Tree};
use verimount_verity::{Identity, Sealed, VerifiedReader, VerifyStats};

use crate::{Error, Location, image, place::Place, processors::all_processors};

/// Content that is verified when it is read, unless that was declined.
pub struct Opened {
    pub(crate) location: Location,
    pub(crate) content: Arc<dyn ReadAt>,
    pub(crate) reader: Option<Arc<VerifiedReader>>,
    pub(crate) pin: Pin,
    pub(crate) stored: StoredFile,
    pub(crate) devices: Vec<Opened>,
    /// Where it was found, if nothing is verified.
    pub(crate) unverified: Option<Place>,
    /// Where it comes from, if not only from this machine.
    pub(crate) origin: Option<Arc<dyn Origin>>,
}

impl Opened {
    /// Where it was opened.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The content, without a seal.
    pub fn content(&self) -> Arc<dyn ReadAt> {
        self.content.clone()
    }

    /// What verifies the content; `None` if nothing is verified.
    pub fn reader(&self) -> Option<&Arc<VerifiedReader>> {
        self.reader.as_ref()
    }

    /// The digest or root hash of the content; `None` if nothing is verified.
    pub fn identity(&self) -> Option<Identity> {
        self.reader.as_ref().map(|reader| *reader.identity())
    }

    /// What was read and verified so far; `None` if nothing is verified.
    pub fn stats(&self) -> Option<VerifyStats> {
        self.reader.as_ref().map(|reader| reader.stats())
    }

    /// On what grounds the content is handed out.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// The further devices of an image.
    pub fn devices(&self) -> &[Self] {
        &self.devices
    }

    /// Where the content comes from, if not only from this machine.
    pub fn origin(&self) -> Option<&Arc<dyn Origin>> {
        self.origin.as_ref()
    }

    /// The same, with read-ahead for sequential readers.
    #[must_use]
    pub fn read_ahead(mut self) -> Self {
        let devices = self.devices.into_iter();
        self.devices = devices.map(Self::read_ahead).collect();
        self.content = Arc::new(ReadAhead::new(self.content, all_processors()));
        self
    }

    /// The tree of an image.
    ///
    /// # Errors
    /// [`Error::NotAnImage`], or [`Error::Image`] if it cannot be read.
    pub fn tree(&self) -> Result<Box<dyn Tree>, Error> {
        self.image()?.ok_or_else(|| Error::NotAnImage {
            at: self.location.clone(),
        })
    }

    /// The same; `None` if the content is not an image.
    ///
    /// # Errors
    /// [`Error::Image`].
    pub fn image(&self) -> Result<Option<Box<dyn Tree>>, Error> {
        let devices = self.devices.iter().map(Self::content).collect();
        image::open(self.content(), devices).map_err(|error| Error::image(&self.location, error))
    }

    /// A directory with the content as its only file.
    pub fn single_file(&self) -> SingleFile {
        SingleFile::new(self.location.file_name(), &self.stored, self.content())
    }

    /// Whether there is a seal that nothing was verified with.
    pub fn has_unused_seal(&self) -> bool {
        let Some(place) = &self.unverified else {
            return false;
        };
        let is_there = |sidecar| matches!(place.existing_file(&sidecar), Ok(Some(_)));
        let beside = place.sidecar().ok().flatten();
        let beside = beside.or(self.location.sidecar());
        Sealed::open_appended(self.content()).is_ok() || beside.is_some_and(is_there)
    }
}
