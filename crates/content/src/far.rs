//! Content that is not on this machine, or takes long to read: how it is reached, kept, and opened again.
//!
//! With the feature `remote`; without it, `far/absent.rs` takes this place, in which there is no such content.

mod access;
pub mod cached;
mod error_kind;
mod far_location;
pub mod registry;
mod whole_files;

pub(crate) use access::Access;
pub(crate) use error_kind::{Replaced, is_replaced, kind_of, replaced};
pub use far_location::FarLocation;
pub(crate) use registry::{Found as Manifest, NamedSuperblock};
pub use whole_files::WholeFiles;
