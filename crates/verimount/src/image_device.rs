//! Further devices of images.

use verimount_content::{Pins, Trust};
use verimount_verity::FileDigest;

use crate::{Content, Error, Location, OpenOptions, fault::Fault, open::open_trusting};

/// A file with data of an image that is in another one, as `mkfs.erofs --blobdev` makes it.
///
/// Nothing in an image says what its devices contain. So each is a sealed file by itself, and what is accepted of it must
/// be as certain as of the image.
#[derive(Debug, Clone)]
pub struct ImageDevice {
    /// Where the file is.
    pub location: Location,
    /// Its only accepted digest of fs-verity. Without, its location may name its content; else the image's key counts for the
    /// device, too, but not its digest or root hash.
    pub digest: Option<FileDigest>,
}

impl ImageDevice {
    /// Opens it with an image that is opened with this trust and these options.
    pub(crate) fn open(&self, image: &Trust, options: &OpenOptions) -> Result<Content, Error> {
        let options = options.clone().alone();
        open_trusting(self.location.clone(), &self.trust(image)?, &options)
    }

    /// Which content is accepted.
    fn trust(&self, image: &Trust) -> Result<Trust, Error> {
        let pins = match (self.digest, image) {
            (Some(digest), _) => Pins {
                digest: Some(digest),
                ..Pins::default()
            },
            (None, _) if self.location.names_content() => Pins::default(),
            (None, Trust::Unpinned | Trust::Unverified) => return Ok(image.clone()),
            (None, Trust::Pinned(Pins { key: Some(key), .. })) => Pins {
                key: Some(key.clone()),
                ..Pins::default()
            },
            (None, Trust::Pinned(_)) => return Err(Fault::UnpinnedDevice.at(&self.location)),
        };
        Ok(Trust::Pinned(pins))
    }
}
