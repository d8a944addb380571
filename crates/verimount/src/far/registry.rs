//! Sealed content in container registries.

mod hashed;
mod image;
pub(super) mod kept_manifest;
mod layers;
mod push;

pub(super) use hashed::hashed;
pub(crate) use image::Found;
pub(super) use image::RegistryImage;
pub(crate) use layers::NamedSuperblock;
pub(super) use push::push;
