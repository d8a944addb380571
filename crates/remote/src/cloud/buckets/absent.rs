//! In place of `buckets`, without the feature: no object can be reached.

use std::{convert::Infallible, iter, ops::ControlFlow, path::PathBuf};

use verimount_source::ReadAt;

use super::ObjectName;
use crate::{
    Error, RemoteUrl,
    client::{Answer, Failure},
    http::Http,
    limits::Limits,
};

#[derive(Default)]
pub(crate) struct Buckets {}

/// There is none.
pub(crate) struct Object(Infallible);

/// There are none.
pub(crate) fn credential_files() -> impl Iterator<Item = PathBuf> {
    iter::empty()
}

impl Buckets {
    pub(crate) fn object(&self, _: &ObjectName, _: &Http, _: &Limits) -> Result<Object, Error> {
        Err(Error::NoClouds)
    }
}

impl Object {
    pub(crate) fn bucket_name(&self) -> String {
        match self.0 {}
    }

    pub(crate) fn store(
        &self,
        _: &dyn ReadAt,
        _: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        match self.0 {}
    }

    pub(crate) fn send(
        &self,
        _: impl FnMut(&RemoteUrl) -> Result<Answer, Failure>,
    ) -> Result<Answer, Failure> {
        match self.0 {}
    }
}
