//! Sealed content in container registries.

mod image;
pub(crate) mod kept_manifest;
mod layers;
mod pull;
mod push;

pub use image::RegistryImage;
pub use layers::LayersError;
pub use pull::{PullOptions, pull};
pub use push::{PushOptions, Pushed, push};
