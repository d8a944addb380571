//! Copying sealed content to other machines and from them, and what is kept of it.
//!
//! With the feature `remote`; without it, `far/absent.rs` takes this place.

mod certificates;
mod cloud;
mod open_options;
mod pull;
mod push;
mod registry;
mod sound_file;
mod verify_cache;

pub(crate) use certificates::certificates;
pub use pull::{PullOptions, Pulled, pull};
pub use push::{PushOptions, Pushed, push};
pub use verify_cache::{CheckedCopy, verify_cache};
pub(crate) use verimount_remote::{helper_tasks, own_files};
