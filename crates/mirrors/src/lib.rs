//! The same bytes in several places: read from the first that has them right, and mended in those that have not.
//!
//! A [`Mirrored`] is a source to [`Fetch`](verimount_source::Fetch) from, over copies that are equal if nothing is wrong. It
//! belongs below whatever verifies the bytes, and promises nothing about them:
//!
//! - A copy that fails or is late is left for the next one. A far place then rests, so that later reads do not wait for it.
//! - Wrong bytes ([`distrust`](verimount_source::Fetch::distrust)) count against the place that gave them, by range.
//! - Right bytes ([`mend`](verimount_source::Fetch::mend)) are written where others are stored, if that was asked for.
//!
//! The parts of one content, its data and its Merkle tree, share what is known of each place: [`Mirrors`].

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod blame;
mod giver;
mod mirrored;
mod mirrors;
mod place;
mod repairs;

pub use mirrored::Mirrored;
pub use mirrors::{MirrorStats, Mirrors};
pub use place::{PlaceKind, PlaceStats};
