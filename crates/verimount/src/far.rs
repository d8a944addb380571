//! Copying sealed content to other machines and from them, and what is kept of it.

mod cloud;
mod open_options;
mod pull;
mod push;
mod registry;
mod sound_file;

pub use pull::{PullOptions, Pulled, pull};
pub use push::{PushOptions, Pushed, push};
