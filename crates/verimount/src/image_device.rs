//! Further devices of images.

use verimount_verity::FileDigest;

use crate::{Error, Location, OpenOptions, Opened, Trust, open};

/// A file with data of an image that is in another one, as `mkfs.erofs --blobdev` makes it.
///
/// Nothing in an image says what its devices contain. So each is a sealed file by itself, and what is accepted of it must
/// be as certain as of the image.
#[derive(Debug, Clone)]
pub struct ImageDevice {
    /// The file.
    pub location: Location,
    /// Its digest of fs-verity. Without it, the location may name its content. Else the image's key counts for the
    /// device, too; its digest or root hash is not that of the device.
    pub digest: Option<FileDigest>,
}

impl ImageDevice {
    /// Opens it with an image that is opened with this trust and these options.
    pub(crate) fn open(&self, image: &Trust, options: &OpenOptions) -> Result<Opened, Error> {
        let options = OpenOptions {
            sidecar: None,
            hash_offset: None,
            devices: Vec::new(),
            ..options.clone()
        };
        open(&self.location, &self.trust(image)?, &options)
    }

    /// Which content is accepted.
    fn trust(&self, image: &Trust) -> Result<Trust, Error> {
        match (self.digest, image) {
            (Some(digest), _) => Ok(digest.into()),
            (None, _) if self.location.names_content() => Ok(Trust::named()),
            (None, Trust::Unpinned | Trust::Unverified) => Ok(image.clone()),
            (None, Trust::Pinned(pins)) => match &pins.key {
                Some(key) => Ok(key.clone().into()),
                None => Err(Error::UnpinnedDevice {
                    at: self.location.clone(),
                }),
            },
        }
    }
}
