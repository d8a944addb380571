//! What can fail. [`Error`] adds where, and what it means.

use std::{any::Any, io, ops::ControlFlow};

use rustix::io::Errno;
use verimount_source::ReadError;
use verimount_tree::Error as TreeError;
use verimount_verity::Error as VerityError;

use crate::{Error, ErrorKind, Location, LocationError, layers_error::LayersError};

/// What failed. The text continues the name of the file that it is about, and includes the texts of its causes.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system refused or failed it.
    #[error(": {0}")]
    Io(#[from] io::Error),
    /// What is to be copied cannot be read.
    #[error(": {0}")]
    Read(#[source] ReadError),
    /// A seal cannot be used, made or changed, or does not have the digest or root hash required.
    #[error(": {0}")]
    Seal(#[source] VerityError),
    /// An image, or a file in it, cannot be read.
    #[error(": {0}")]
    Image(#[from] TreeError),
    /// It was ended before it was complete.
    #[error(": interrupted")]
    Cancelled,
    /// The content was opened without verification, which is needed here.
    #[error(": nothing of it is verified")]
    Unverified,
    /// The content is in too many places.
    #[error(": there can be at most {most} mirrors of it")]
    TooManyMirrors {
        /// How many there can be.
        most: usize,
    },
    /// There is no seal, where it could be verified against one.
    #[error(" has no seal at its end{}", beside(.sidecar))]
    NotSealed {
        /// The file beside it that could have held the seal, but does not exist.
        sidecar: Option<Location>,
    },
    /// A file that should hold a seal holds something else.
    #[error(" does not contain a seal")]
    NotASeal,
    /// A file that should hold a seal of fs-verity is a hash area of dm-verity, which a root hash
    /// is required for.
    #[error(" is a dm-verity hash area")]
    IsHashArea,
    /// A file that should say where the hash area of a layer is says something else.
    #[error(" is not what containerd writes for a layer with dm-verity: {0}")]
    NotALayerNote(String),
    /// There is no hash area, for which a root hash was given.
    #[error(" does not exist")]
    NoHashArea,
    /// The data does not have the size that it had when it was sealed.
    #[error(
        " {}: it has {actual} bytes, but {expected} according to its seal in {sidecar}",
        if actual < expected { "is truncated" } else { "was changed" }
    )]
    SizeChanged {
        /// The file with its seal.
        sidecar: Location,
        /// The size that was sealed, in bytes.
        expected: u64,
        /// The size of the data, in bytes.
        actual: u64,
    },
    /// Content in a registry cannot be opened, or does not have what its manifest says.
    #[error(": {0}")]
    Layers(#[source] LayersError),
    /// The location was to say which content is accepted, and does not.
    #[error(" does not say which digest the content has")]
    NotNamed,
    /// The location says that the content is another one than required.
    #[error(" says that its content is {named}, but {expected} is required")]
    NamedOtherwise {
        /// What the location says.
        named: String,
        /// What is required.
        expected: String,
    },
    /// A digest or a key was given together with a root hash.
    #[error(
        " can be checked with a seal of fs-verity, by digest or key, or with a tree of dm-verity, by root hash, \
         but not with both"
    )]
    PinsOfTwoSeals,
    /// A digest, key or root hash was given, and it was said that none is needed.
    #[error(" cannot be opened both with and without a digest, key or root hash")]
    PinnedAndNot,
    /// The hash area of a named image has another superblock than the name says.
    #[error(": the registry sends another superblock of dm-verity than was stored under this name")]
    WrongSuperblock,
    /// The hash area is for another number of data blocks than required.
    #[error(": its hash area is for {actual} data blocks, not {expected}")]
    DataBlocks {
        /// The required number.
        expected: u64,
        /// The number in the superblock.
        actual: u64,
    },
    /// An argument is not a location.
    #[error(transparent)]
    Location(LocationError),
    /// Something that is no matter of opening or reading content.
    #[error("{0}")]
    Other(Box<dyn OtherFault>),
}

/// What failed in something that is done with content, as a [`Fault`].
pub trait OtherFault: std::error::Error + Any + Send + Sync {
    /// What it means.
    fn kind(&self) -> ErrorKind;

    /// The failed read that it comes from, if it comes from one.
    fn failed_read(&self) -> Option<&ReadError> {
        None
    }
}

impl Fault {
    /// The error that this happened to the file at `location`.
    pub fn at(self, location: impl Into<Location>) -> Error {
        Error::new(Some(location.into()), self)
    }

    /// The error for a fault whose text names the place.
    pub fn somewhere(self) -> Error {
        Error::new(None, self)
    }

    /// What the answer of who watches an operation means for it.
    ///
    /// # Errors
    /// [`Self::Cancelled`], unless it goes on.
    pub fn if_ended(said: ControlFlow<()>) -> Result<(), Self> {
        if said.is_break() {
            return Err(Self::Cancelled);
        }
        Ok(())
    }

    /// The error that the system failed something about a file.
    pub fn io(at: impl Into<Location>, reason: io::Error) -> Error {
        Self::Io(reason).at(at)
    }

    /// The error that a seal cannot be used.
    pub fn seal(at: impl Into<Location>, reason: VerityError) -> Error {
        match reason {
            VerityError::Cancelled => Self::Cancelled.at(at),
            reason => Self::Seal(reason).at(at),
        }
    }

    /// The error that content cannot be read.
    pub fn read(at: impl Into<Location>, reason: ReadError) -> Error {
        Self::Read(reason).at(at)
    }

    /// The error that an image cannot be read.
    pub fn image(at: impl Into<Location>, reason: TreeError) -> Error {
        Self::Image(reason).at(at)
    }

    /// What failed.
    pub fn of(error: &Error) -> &Self {
        error.fault()
    }

    /// What failed in something else than opening and reading content, if it is of this type.
    pub fn other<F: OtherFault>(error: &Error) -> Option<&F> {
        match error.fault() {
            Self::Other(fault) => (&**fault as &dyn Any).downcast_ref(),
            _ => None,
        }
    }

    /// The failed read behind it, if there is one.
    pub(crate) fn failed_read(&self) -> Option<&ReadError> {
        match self {
            Self::Read(error)
            | Self::Seal(VerityError::Source(error))
            | Self::Image(TreeError::Read(error)) => Some(error),
            Self::Other(fault) => fault.failed_read(),
            _ => None,
        }
    }
}

impl<F: OtherFault> From<F> for Fault {
    fn from(fault: F) -> Self {
        Self::Other(Box::new(fault))
    }
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

fn beside(sidecar: &Option<Location>) -> String {
    sidecar.as_ref().map_or_else(String::new, |sidecar| {
        format!(", and {sidecar} does not exist")
    })
}
