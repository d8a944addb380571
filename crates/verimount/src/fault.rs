//! What can fail. [`Error`] adds where, and what it means.

use verimount_content::OtherFault;
use verimount_source::ReadAt;

use crate::{
    Error, ErrorKind, Location,
    foreign::{foreign, suffix},
};

pub(crate) use verimount_content::Fault as ContentFault;

/// What failed. The text continues the name of the file that it is about, and includes the texts of its causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The content of a file was wanted as text.
    #[error(": it is not text in UTF-8")]
    NotText,
    /// Everything was to be fetched ahead, and nothing would keep it.
    #[error(": there is no cache that would keep what is fetched")]
    NoCache,
    /// A file exists that is to be replaced only if that is allowed explicitly: it is not what was to be made, or more than that.
    #[error(": it exists and is {0}")]
    WouldReplace(&'static str),
    /// The files of an image have more data than may be extracted.
    #[error(": up to here, the files have more than {limit} bytes: some may overlap in the image")]
    TooLarge {
        /// How many bytes may be written.
        limit: u64,
    },
    /// The directory that files are to be copied to has files in it.
    #[error(" is not empty")]
    NotEmpty,
    /// It is neither sealed nor an image nor a volume.
    #[error(" has no seal, at its end or beside it, and is neither an image nor a volume{}", suffix(*.0))]
    Unrecognised(Option<&'static str>),
    /// The content is not an image, but this.
    #[error(" is not an image{}", suffix(*.0))]
    NotAnImage(Option<&'static str>),
    /// The image is pinned by a digest or root hash, which says nothing of its device.
    #[error(": nothing says which content of this device is right")]
    UnpinnedDevice,
    /// The name of an object is so long that its seal can have no name beside it.
    #[error(": its name is too long for a seal beside it")]
    #[cfg(feature = "remote")]
    NoSidecarName,
    /// Nothing is copied to or from such a place, or under such a name.
    #[error("{0}")]
    #[cfg(feature = "remote")]
    WrongPlace(&'static str),
    /// A tree is to be appended to a file whose content is compared with a signature.
    #[error(": a tree cannot be appended to what is compared with a model signature")]
    SignedAppend,
    /// A file that was to be copied does not match its seal.
    #[error(" is damaged: it does not match its seal")]
    #[cfg(feature = "remote")]
    Damaged,
}

impl Fault {
    /// The fault of content that is no image.
    pub(crate) fn not_an_image(content: &dyn ReadAt) -> Self {
        Self::NotAnImage(foreign(content))
    }

    /// The error that this happened to the file at `location`.
    pub(crate) fn at(self, location: impl Into<Location>) -> Error {
        ContentFault::from(self).at(location)
    }

    /// The error for a fault whose text names the place.
    #[cfg(feature = "remote")]
    pub(crate) fn somewhere(self) -> Error {
        ContentFault::from(self).somewhere()
    }
}

impl OtherFault for Fault {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::UnpinnedDevice => ErrorKind::DeviceNotTrusted,
            #[cfg(feature = "remote")]
            Self::Damaged => ErrorKind::Damaged,
            #[cfg(feature = "remote")]
            Self::NoSidecarName | Self::WrongPlace(_) => ErrorKind::InvalidInput,
            Self::Unrecognised(_) | Self::NotAnImage(_) | Self::NotText => ErrorKind::WrongFormat,
            Self::WouldReplace(_) => ErrorKind::WouldReplace,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::NotEmpty | Self::NoCache | Self::SignedAppend => ErrorKind::InvalidInput,
        }
    }
}
