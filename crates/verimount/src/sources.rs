//! Opening the files that content consists of: the one at its location, and perhaps a sidecar.

use std::sync::Arc;

use verimount_source::{Blocks, ReadAt};
use verimount_tree::StoredFile;

use crate::{Error, Location, OpenOptions};

#[cfg(feature = "remote")]
pub(crate) use self::kept::Kept;

/// Opens the files of one content.
pub(crate) struct Sources<'a> {
    pub(crate) options: &'a OpenOptions,
    /// The copies in the cache.
    #[cfg(feature = "remote")]
    kept: Option<Kept>,
}

/// Which of the files it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOf {
    Content,
    Sidecar,
}

impl<'a> Sources<'a> {
    /// Opens them where they are.
    pub(crate) fn new(options: &'a OpenOptions) -> Self {
        Self {
            options,
            #[cfg(feature = "remote")]
            kept: None,
        }
    }

    /// Opens their copies, as far as there are some.
    #[cfg(feature = "remote")]
    pub(crate) fn with_copies(options: &'a OpenOptions, kept: Option<Kept>) -> Self {
        Self { options, kept }
    }

    #[cfg(feature = "remote")]
    pub(crate) fn into_kept(self) -> Option<Kept> {
        self.kept
    }

    /// Opens the file at the content's location, with its attributes.
    pub(crate) fn content(
        &self,
        location: &Location,
    ) -> Result<(Arc<dyn ReadAt>, StoredFile), Error> {
        self.open(location, FileOf::Content)
    }

    /// Opens a file with a Merkle tree.
    pub(crate) fn sidecar(&self, location: &Location) -> Result<Arc<dyn ReadAt>, Error> {
        Ok(self.open(location, FileOf::Sidecar)?.0)
    }

    /// The same; `None` if the file does not exist.
    pub(crate) fn existing_sidecar(
        &self,
        location: &Location,
    ) -> Result<Option<Arc<dyn ReadAt>>, Error> {
        location.if_existing(|| self.sidecar(location))
    }

    fn open(
        &self,
        location: &Location,
        file: FileOf,
    ) -> Result<(Arc<dyn ReadAt>, StoredFile), Error> {
        let (source, stored) = self.open_or_copy(location, file)?;
        // With requests of the largest size at most.
        let source = match self.options.max_request {
            Some(size) => Arc::new(Blocks::new(source, size)),
            None => source,
        };
        Ok((source, stored))
    }

    #[cfg(feature = "remote")]
    fn open_or_copy(
        &self,
        location: &Location,
        file: FileOf,
    ) -> Result<(Arc<dyn ReadAt>, StoredFile), Error> {
        match (&self.kept, location) {
            (Some(kept), location) if location.is_remote() => {
                let copy = kept.open(location, file, &self.options.access)?;
                Ok((copy, StoredFile::default()))
            }
            _ => location.open(&self.options.access),
        }
    }

    #[cfg(not(feature = "remote"))]
    fn open_or_copy(
        &self,
        location: &Location,
        _: FileOf,
    ) -> Result<(Arc<dyn ReadAt>, StoredFile), Error> {
        location.open(&self.options.access)
    }
}

#[cfg(feature = "remote")]
mod kept;
