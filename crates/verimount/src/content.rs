use std::sync::Arc;

use verimount_content::Opened;
use verimount_source::all_processors;
use verimount_tree::{Measurement, SingleFile, Tree};
use verimount_verity::{Identity, Sealed, VerifyStats};

use crate::{
    Error, File, Image, Location, MirrorStats, OpenOptions, Pin, Report, Unshared, VerifyOptions,
    fault::{ContentFault, Fault},
    image_format,
    open::open,
    verify::verify,
};

/// What is at a location, image or not: verified when it is read, unless that was declined.
///
/// Only its seal is read and verified when it is opened; each byte is verified when it is read. Clones share what
/// was read.
#[derive(Clone)]
pub struct Content {
    pub(crate) opened: Opened,
    pub(crate) devices: Vec<Content>,
}

impl Content {
    /// Opens what is at `location`, as the options accept it.
    ///
    /// # Errors
    /// [`NotTrusted`](crate::ErrorKind::NotTrusted) if nothing says what is accepted,
    /// [`WrongContent`](crate::ErrorKind::WrongContent) if it is something else,
    /// [`NotSealed`](crate::ErrorKind::NotSealed) if there is nothing to verify it with, and any other of opening and
    /// reading.
    pub fn open<L: TryInto<Location>>(location: L, options: &OpenOptions) -> Result<Self, Error>
    where
        Error: From<L::Error>,
    {
        open(location.try_into()?, options)
    }

    /// What it was opened as, for those who serve it.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Where it was opened.
    pub fn location(&self) -> &Location {
        &self.opened.location
    }

    /// Its digest or root hash; `None` if nothing is verified.
    pub fn identity(&self) -> Option<Identity> {
        self.opened.identity()
    }

    /// What was read and verified so far, of further devices too; `None` if nothing is verified.
    pub fn stats(&self) -> Option<VerifyStats> {
        self.opened.reader.as_ref().map(|reader| reader.stats())
    }

    /// What each place did so far, if it was opened with [mirrors](OpenOptions::mirror).
    pub fn mirror_stats(&self) -> Option<MirrorStats> {
        self.opened
            .mirrored
            .as_ref()
            .map(|mirrored| mirrored.mirrors.stats())
    }

    /// On what grounds it is handed out.
    pub fn pin(&self) -> &Pin {
        &self.opened.pin
    }

    /// The further devices of an image.
    pub fn devices(&self) -> &[Self] {
        &self.devices
    }

    /// Of which of the older contents that it is to be [read from](OpenOptions::like) nothing is used.
    pub fn unshared(&self) -> &[Unshared] {
        &self.opened.unshared
    }

    /// Whether it comes from another machine, at least in part.
    pub fn is_remote(&self) -> bool {
        self.opened.origin.is_some()
    }

    /// All of it, as one file.
    pub fn file(&self) -> File {
        File::whole(self.opened.location.clone(), self.opened.source.clone())
    }

    /// The image that it is.
    ///
    /// # Errors
    /// [`WrongFormat`](crate::ErrorKind::WrongFormat) if it is not an image, and those of reading.
    pub fn image(&self) -> Result<Image, Error> {
        match self.tree()? {
            Some(tree) => Ok(Image::new(self.clone(), tree)),
            None => Err(Fault::not_an_image(&self.opened.source).at(&self.opened.location)),
        }
    }

    /// Reads and verifies all of it, and finds every bad range and the files of an image in it. Further devices are content
    /// of their own.
    ///
    /// # Errors
    /// [`NotTrusted`](crate::ErrorKind::NotTrusted) if nothing is verified when it is read, and
    /// [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn verify(&self, options: &VerifyOptions) -> Result<Report, Error> {
        verify(self, options)
    }

    /// Ends all reads that wait for another machine, of everything that was opened with clones of the same options. They
    /// fail, and so do later ones.
    pub fn close(&self) {
        if let Some(origin) = &self.opened.origin {
            origin.close();
        }
    }

    /// Whether there is a seal that nothing was verified with.
    pub fn has_unused_seal(&self) -> bool {
        let Some(place) = &self.opened.unverified else {
            return false;
        };
        let is_there = |sidecar| matches!(place.existing_file(&sidecar), Ok(Some(_)));
        let beside = place.sidecar().ok().flatten();
        let beside = beside.or(self.opened.location.sidecar());
        Sealed::open_appended(Arc::new(self.opened.source.clone())).is_ok()
            || beside.is_some_and(is_there)
    }

    /// The tree of the image; `None` if the content is no image.
    ///
    /// # Errors
    /// Those of reading, and of damaged images.
    pub fn tree(&self) -> Result<Option<Box<dyn Tree>>, Error> {
        let devices = self
            .devices
            .iter()
            .map(|device| device.opened.source.clone());
        image_format::open(self.opened.source.clone(), devices.collect())
            .map_err(|error| ContentFault::image(&self.opened.location, error))
    }

    /// A directory with the content as its only file.
    pub fn single_file(&self) -> SingleFile {
        let file = SingleFile::new(
            self.opened.location.file_name(),
            &self.opened.stored,
            Arc::new(self.opened.source.clone()),
        );
        file.measured(self.identity().as_ref().and_then(measurement))
    }

    /// Adds threads that read and verify ahead of sequential readers of small pieces.
    #[must_use]
    pub fn read_ahead(mut self) -> Self {
        let devices = self.devices.into_iter();
        self.devices = devices.map(Self::read_ahead).collect();
        let chunks = self.opened.checked.clone().in_chunks(all_processors());
        self.opened.source = chunks.read_ahead();
        self
    }
}

/// What fs-verity measures of content with this identity.
fn measurement(identity: &Identity) -> Option<Measurement> {
    let Identity::FileDigest(digest) = identity else {
        return None;
    };
    let digest = digest.digest();
    Some(Measurement {
        algorithm: digest.algorithm().number().into(),
        digest: digest.as_bytes().to_vec(),
    })
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content")
            .field("location", &self.opened.location)
            .field("identity", &self.identity())
            .field("pin", &self.opened.pin)
            .finish_non_exhaustive()
    }
}
