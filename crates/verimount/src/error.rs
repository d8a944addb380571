use std::io;

use thiserror::Error;
use verimount_tree::Error as TreeError;
use verimount_verity::Error as VerityError;

use crate::Location;

/// Why something failed, and where. The text of an error includes those of its causes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused or failed it.
    #[error("{at}: {source}")]
    Io {
        /// The file or directory.
        at: Location,
        /// What the system said.
        source: io::Error,
    },
    /// A seal cannot be used, made or changed, or does not have the digest or root hash required.
    #[error("{at}: {source}")]
    Seal {
        /// The sealed file, or the one that holds the seal.
        at: Location,
        /// The reason.
        source: VerityError,
    },
    /// An image cannot be read.
    #[error("{at}: {source}")]
    Image {
        /// The image.
        at: Location,
        /// The reason.
        source: TreeError,
    },
    /// The content is not an image.
    #[error("{at} is not an image")]
    NotAnImage {
        /// The content.
        at: Location,
    },
    /// There is no seal, where it could be verified against one.
    #[error("{at} has no seal at its end{}", beside(.sidecar))]
    NotSealed {
        /// The file.
        at: Location,
        /// The file beside it that could have held the seal, but does not exist.
        sidecar: Option<Location>,
    },
    /// A file that should hold a seal holds something else.
    #[error("{at} does not contain a seal")]
    NotASeal {
        /// The file that should hold the seal.
        at: Location,
    },
    /// A file that should hold a seal of fs-verity is a hash area of dm-verity, which a root hash
    /// is required for.
    #[error("{at} is a dm-verity hash area")]
    IsHashArea {
        /// The hash area.
        at: Location,
    },
    /// There is no hash area, for which a root hash was given.
    #[error("{at} does not exist")]
    NoHashArea {
        /// The file that should hold the hash area.
        at: Location,
    },
    /// The data does not have the size that it had when it was sealed.
    #[error(
        "{at} {}: it has {actual} bytes, but {expected} according to its seal in {sidecar}",
        if actual < expected { "is truncated" } else { "was changed" }
    )]
    SizeChanged {
        /// The data.
        at: Location,
        /// The file with its seal.
        sidecar: Location,
        /// The size that was sealed, in bytes.
        expected: u64,
        /// The size of the data, in bytes.
        actual: u64,
    },
    /// The hash area is for another number of data blocks than required.
    #[error("{at}: its hash area is for {actual} data blocks, not {expected}")]
    DataBlocks {
        /// The data.
        at: Location,
        /// The required number.
        expected: u64,
        /// The number in the superblock.
        actual: u64,
    },
}

impl Error {
    pub(crate) fn io(at: impl Into<Location>, source: io::Error) -> Self {
        let at = at.into();
        Self::Io { at, source }
    }

    pub(crate) fn seal(at: impl Into<Location>, source: VerityError) -> Self {
        let at = at.into();
        Self::Seal { at, source }
    }

    pub(crate) fn image(at: impl Into<Location>, source: TreeError) -> Self {
        let at = at.into();
        Self::Image { at, source }
    }
}

fn beside(sidecar: &Option<Location>) -> String {
    sidecar.as_ref().map_or_else(String::new, |sidecar| {
        format!(", and {sidecar} does not exist")
    })
}
