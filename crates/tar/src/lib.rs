//! A strict reader of tar archives: ustar, GNU and pax, with extended attributes and holes.
//!
//! [`Reader`] gives one [`Member`] after the other, as the archive has it: nothing is known here of directories
//! that are not named, of links' targets or of names that come twice. Contents are not read, but their places
//! in the archive are told.
//!
//! No archive is trusted. All that is kept in memory has a limit. What other programs read in different ways is
//! refused, such as a directory with content: nobody should see another tree than the one that is in an image.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod acl;
mod attributes;
mod compression;
mod doubts;
mod error;
mod extension;
mod header;
mod input;
mod member;
mod number;
mod reader;
mod sparse;

pub use compression::Compression;
pub use error::{Defect, Error};
pub use member::{Attributes, Content, Kind, Member, Xattr};
pub use reader::{Reader, check_beginning};
