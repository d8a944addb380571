//! Sealed content wherever it is: what is accepted of it, where it is, and opening it.
//!
//! What is read of a place is a [`Fetch`](verimount_source::Fetch), of bytes that nobody has checked: a file, a server, a registry,
//! several [mirrors](MirroredContent), a cache, older content. [`open`] puts them together by a [`Trust`] and gives [`Opened`],
//! whose bytes are [checked](verimount_verity::Checked).

#![cfg_attr(
    not(feature = "remote"),
    allow(dead_code, reason = "what only remote content needs")
)]

mod accepted;
mod at_need;
mod beheaded;
mod error;
mod error_kind;
#[cfg_attr(not(feature = "remote"), path = "far/absent.rs")]
mod far;
mod fault;
#[cfg_attr(not(feature = "remote"), path = "history/absent.rs")]
mod history;
#[cfg_attr(not(feature = "json"), path = "layer_note/absent.rs")]
mod layer_note;
mod layers_error;
mod lazy;
mod like;
mod location;
mod mirrors;
mod open;
mod opening;
mod options;
mod origin;
mod pin;
mod place;
mod progress;
mod seal_search;
#[cfg(test)]
mod sealed_files;
mod setters;
mod trust;

pub use accepted::{Accepted, reader};
pub use error::Error;
pub use error_kind::ErrorKind;
pub use far::FarLocation;
pub use fault::{Fault, OtherFault};
pub use layers_error::LayersError;
pub use lazy::{OpenFile, file_copy};
pub use like::{OldBlock, Olds, Part, Runs, Unshared, UnsharedReason};
pub use location::{
    BESIDE, Location, LocationError, SIDECAR_SUFFIX, open_file, path_with, sidecar_path,
};
pub use mirrors::{MirroredContent, answering, mirrors_of};
pub use open::{Opened, open, open_accepted};
pub use options::Options;
pub use origin::{CacheStatus, Origin, OriginFailure, OriginReplacement, OriginStatus};
pub use pin::Pin;
pub use place::Place;
pub use progress::{Progress, Step, UNKNOWN, Watch, Watcher, step};
pub use seal_search::{find_seal, look_for_hash_area, look_for_seal};
pub use trust::{ParseRootHashError, Pins, RootHash, Trust};
pub use verimount_mirrors::{MirrorStats, Mirrors, PlaceStats};

#[cfg(feature = "remote")]
pub use {
    far::{WholeFiles, cached, registry},
    history::kept,
};
