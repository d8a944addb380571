//! The romfs image format: a validating reader and a reproducible writer.
//!
//! romfs is the Linux kernel's simplest read-only file system: each directory is a chain of
//! headers, and each file's data follows its header. [`Romfs`] reads any romfs image and trusts
//! none; [`plan`] lays out a scanned tree as a byte-for-byte reproducible image that every romfs
//! reader opens. [`RomfsTree`] shows an image as a [`Tree`](verimount_tree::Tree), as a mount does.
//!
//! Images made here also have a *header index* after the bytes that other readers access: a packed
//! copy of the headers, so that listing a tree does not take one random read per file.
//!
//! The format, the layout and the index are specified in `docs/formats/romfs.md`.

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

mod block_size;
mod check;
mod damaged;
mod directories;
mod entries;
mod error;
mod geometry;
mod header;
mod header_window;
mod index;
mod name;
mod node;
mod raw;
mod reader;
mod romfs_tree;
mod superblock;
mod walk;
#[cfg(feature = "write")]
mod writer;

pub use block_size::{BlockSize, InvalidBlockSize};
pub use entries::{Entries, Entry};
pub use error::{Corruption, Error, Limit};
pub use name::{InvalidVolumeName, MAX_NAME_LEN, VolumeName};
pub use node::{Node, NodeId};
pub use reader::Romfs;
pub use romfs_tree::RomfsTree;
#[cfg(feature = "write")]
pub use writer::{Options, Plan, Unstorable, plan};

pub use verimount_tree::FileType;
