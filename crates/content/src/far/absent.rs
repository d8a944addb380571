//! What takes the place of [`far`](crate) without the feature `remote`: all content is on this machine.

use std::{env, error, fmt, io, path::PathBuf, sync::Arc, time::Duration};

use verimount_source::Fetch;
use verimount_verity::Seal;

use crate::{Error, ErrorKind, Location, LocationError, Origin, trust::Named};

#[derive(Debug, Clone, Default)]
pub struct Access {}

/// There is no such location.
#[derive(Clone, Copy)]
pub enum FarLocation {}

/// There is none.
pub enum Manifest {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedSuperblock {}

impl Access {
    pub(crate) fn tolerate_changes(&mut self) {}

    pub(crate) fn forget_replacement(&mut self) {}

    pub(crate) fn send_headers_to(&mut self, location: &FarLocation) {
        match *location {}
    }

    /// Where files without a name are made.
    pub fn folder(&self) -> PathBuf {
        env::temp_dir()
    }

    pub(crate) fn origin(&self) -> Option<Arc<dyn Origin>> {
        None
    }

    /// How long a read may take that has several places to ask.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(60)
    }
}

impl FarLocation {
    pub(crate) fn parse(_: &str) -> Result<Self, LocationError> {
        let refused = "this program was built without support for URLs";
        Err(LocationError(refused.to_owned()))
    }

    pub(crate) fn named_digest(&self) -> Option<String> {
        match *self {}
    }

    /// It is in none.
    pub fn registry(&self) -> Option<&str> {
        match *self {}
    }

    pub(crate) fn origin(&self, _: &Access) -> Option<String> {
        match *self {}
    }

    pub(crate) fn file_name(&self) -> &str {
        match *self {}
    }

    pub(crate) fn with_suffix(&self, _: &str) -> Option<Self> {
        match *self {}
    }

    pub(crate) fn manifest(&self, _: &Access) -> Result<Option<Manifest>, Error> {
        match *self {}
    }

    pub(crate) fn own_seal(&self, _: &Manifest) -> Option<Self> {
        match *self {}
    }

    pub(crate) fn open_layer(&self, _: &Manifest) -> Result<Option<Arc<dyn Fetch>>, Error> {
        match *self {}
    }

    pub(crate) fn open(&self, _: &Access) -> Result<Arc<dyn Fetch>, Error> {
        match *self {}
    }
}

impl Manifest {
    pub(crate) fn named(&self) -> Option<&Named> {
        match *self {}
    }
}

impl NamedSuperblock {
    pub(crate) fn is_of(
        &self,
        _: &Seal,
        _: impl FnOnce() -> Result<(Location, Arc<dyn Fetch>), Error>,
    ) -> Result<bool, Error> {
        match *self {}
    }
}

/// There are no errors of servers.
pub(crate) fn kind_of(_: &(dyn error::Error + Send + Sync + 'static)) -> Option<ErrorKind> {
    None
}

/// Nothing is replaced on other machines.
pub(crate) fn is_replaced(_: &io::Error) -> bool {
    false
}

/// The error for a file that is another one than was opened.
pub(crate) fn replaced() -> io::Error {
    io::Error::other("the file was replaced after it was opened")
}

impl From<FarLocation> for Location {
    fn from(far: FarLocation) -> Self {
        match far {}
    }
}

impl fmt::Display for FarLocation {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_library_was_built_without_is_refused() {
        for name in ["https://host/a", "oci://host/a", "s3://bucket/a"] {
            let refused = Location::try_from(name).unwrap_err();
            assert!(refused.to_string().contains("built without"), "{refused}");
        }
    }
}
