//! A cache on disk above any positional source, for readers that verify what they read.
//!
//! A [`Cache`] is a directory with one sparse file for each [`Object`]. [`Cached`] reads what is in such a file
//! there, and everything else from another source, which it then writes to the file.
//!
//! It promises nothing about the bytes. A reader that finds some wrong calls
//! [`Fetch::distrust`](verimount_source::Fetch::distrust), and they are read from the source again. So
//! nothing is ever flushed, and no file says what is valid: which parts of a file are data and which are holes is
//! all that is stored. Several processes may use one cache. No failure of it makes a read fail.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod cache;
mod cached;
mod counters;
mod directory;
mod error;
mod eviction;
mod key;
mod object;
mod presence;

pub use cache::{Cache, Cleared, Stored};
pub use cached::Cached;
pub use counters::CacheStats;
pub use error::CacheError;
pub use key::{InvalidKey, Key, Part};
pub use object::Object;
