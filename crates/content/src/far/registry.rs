//! Sealed content in container registries.

mod hashed;
mod image;
pub mod kept_manifest;
mod layers;

pub use hashed::hashed;
pub use image::{Found, RegistryImage};
pub use layers::{EMPTY_CONFIG, NamedSuperblock, NewLayers, SealedContent};
