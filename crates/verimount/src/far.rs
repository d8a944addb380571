//! Content that is not on this machine, or takes long to read: how it is reached, kept, stored, and opened again.
//!
//! With the feature `remote`; without it, `far/absent.rs` takes this place, in which there is no such content.

mod access;
mod certificates;
mod cloud;
mod error_kind;
mod far_location;
mod keeping;
mod kept;
mod open_options;
mod pull;
mod push;
mod registry;
mod releases;
mod siblings;
mod sound_file;
mod verify_cache;

pub(crate) use access::Access;
pub(crate) use certificates::certificates;
pub(crate) use error_kind::{is_replaced, kind_of, replaced};
pub(crate) use far_location::FarLocation;
pub(crate) use keeping::{keep, kept_seal};
pub use pull::{PullOptions, Pulled, pull};
pub use push::{PushOptions, Pushed, push};
pub(crate) use registry::{Found as Manifest, NamedSuperblock};
pub(crate) use releases::{other_release, releases};
pub(crate) use siblings::ContentOrigin;
pub use verify_cache::{CheckedCopy, verify_cache};
pub(crate) use verimount_remote::{helper_tasks, own_files};
