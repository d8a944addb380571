//! Verified storage from user space: what the `verimount` command does, for other programs.
//!
//! [`open`] takes a [`Location`], a [`Trust`] that says which content is accepted, and
//! [`OpenOptions`]. What it returns hands out only bytes that match their Merkle tree, as one content
//! or, for an image, as a directory tree.
//!
//! The layers below are re-exported under their names: [`source`] for what content is read from,
//! [`tree`] for directory trees, [`verity`] for digests, keys and Merkle trees.

mod error;
pub mod image;
mod location;
mod open;
mod opened;
mod processors;
mod seal_search;
mod trust;

pub use error::Error;
pub use location::Location;
pub use open::{OpenOptions, open};
pub use opened::Opened;
pub use trust::{ParseRootHashError, RootHash, Trust};

pub use verimount_serve as serve;
pub use verimount_source as source;
pub use verimount_tree as tree;
pub use verimount_verity as verity;
