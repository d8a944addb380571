//! Sealed content in container registries.

mod image;
pub(crate) mod kept_manifest;
mod layers;
mod pull;
mod push;

pub(crate) use image::Found;
pub use image::RegistryImage;
pub use layers::LayersError;
pub(crate) use layers::{Named, NamedSuperblock};
pub use pull::{PullOptions, pull};
pub use push::{PushOptions, Pushed, push};
