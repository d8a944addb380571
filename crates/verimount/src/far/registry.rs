//! Sealed content in container registries.

mod hashed;
mod image;
pub(super) mod kept_manifest;
mod layer_copy;
mod layers;
mod pull;
mod push;

pub(crate) use image::Found;
pub(super) use image::RegistryImage;
pub(crate) use layers::NamedSuperblock;
pub use pull::{PullOptions, pull};
pub(super) use push::push;
