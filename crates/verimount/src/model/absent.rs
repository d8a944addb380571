//! What takes the place of `model` without the feature `build`: there are no model signatures.

use std::{ops::ControlFlow, path::Path};

use verimount_content::Watch;
use verimount_source::ReadAt;
use verimount_tree::Tree;

use crate::{Content, Error, VerifiedModel};

/// There is none.
#[derive(Debug, Clone)]
pub enum ModelSignature {}

/// There is none.
#[derive(Debug, Clone)]
pub enum ModelKey {}

/// There is none.
#[derive(Debug)]
pub enum ModelClaim {}

/// Nothing is read of an image.
pub(crate) fn claim(_: &dyn Tree) -> Option<ModelClaim> {
    None
}

pub(crate) fn verify_model(
    _: &Content,
    key: &ModelKey,
    _: &mut Watch<'_>,
) -> Result<VerifiedModel, Error> {
    match *key {}
}

pub(crate) fn seal_checked<T>(
    _: &Path,
    _: &impl ReadAt,
    signature: &ModelSignature,
    _: &mut dyn FnMut(u64) -> ControlFlow<()>,
    _: impl FnOnce(&dyn ReadAt, &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<T, Error>,
) -> Result<T, Error> {
    match *signature {}
}
