//! The EROFS image format: a validating reader and a reproducible writer.
//!
//! EROFS is the read-only file system that Linux distributions, Android and container runtimes ship trees
//! in. It keeps everything that Linux knows about a file. [`ErofsTree`] shows an image as a
//! [`Tree`](verimount_tree::Tree); [`Superblock`] is what an image says of itself. [`plan`] lays out
//! a scanned tree as an image that the kernel mounts, too.
//!
//! No image is trusted: each number from it is checked where it is used, and what an operation reads, keeps
//! in memory or repeats has a limit that does not depend on the image. Features that this reader does not
//! know are refused by name.
//!
//! `docs/formats/erofs.md` describes what is read of the format, and `docs/formats/erofs-writing.md` what is written.

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
mod chunks;
mod cluster;
mod compressed;
mod content;
mod decode;
mod devices;
mod directory;
mod directory_block;
mod directory_search;
mod erofs_tree;
mod error;
mod features;
mod image;
mod inode;
mod inode_id;
mod layout;
mod metadata;
mod note;
mod numbers;
mod piece;
mod places;
mod raw;
mod space;
mod superblock;
mod work;
#[cfg(feature = "write")]
mod writer;
mod xattr_prefixes;
mod xattrs;

pub use block_size::{BlockSize, InvalidBlockSize};
pub use erofs_tree::ErofsTree;
pub use error::{Corruption, Error, Unsupported};
pub use superblock::Superblock;
pub use work::Work;
#[cfg(feature = "write")]
pub use writer::{
    ClusterSize, Codec, Compression, InvalidClusterSize, InvalidCodec, InvalidVolumeName, Level,
    Lz4Level, Options, Plan, Unstorable, VolumeName, ZstdLevel, plan,
};
