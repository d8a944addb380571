//! Verified storage from user space: what the `verimount` command does, for other programs.
//!
//! [`open`] takes a [`Location`], a [`Trust`] that says which content is accepted, and
//! [`OpenOptions`]. What it returns hands out only bytes that match their Merkle tree, as one content
//! or, for an image, as a directory tree.
//!
//! The layers below are re-exported under their names: [`source`] for what content is read from,
//! [`scan`], [`romfs`] and [`erofs`] for images that are built, [`tree`] for directory trees, [`verity`] for
//! digests, keys and Merkle trees.

mod accepted;
mod access;
mod archive_input;
mod build;
#[cfg(feature = "clouds")]
pub mod cloud;
mod content;
mod describe;
mod error;
mod error_kind;
mod extract;
mod file_system;
pub mod image;
mod image_archive;
mod image_device;
mod image_format;
mod image_plan;
#[cfg(feature = "remote")]
mod kept;
mod layer_note;
#[cfg(feature = "remote")]
mod lazy;
mod location;
mod losses;
mod open;
mod opened;
mod opened_seal;
mod output_file;
mod place;
mod prefetch;
mod processors;
mod progress;
#[cfg(feature = "remote")]
pub mod registry;
mod seal;
mod seal_search;
mod sign;
#[cfg(feature = "remote")]
mod sound_file;
mod trust;
mod verify;
#[cfg(feature = "remote")]
mod verify_cache;
pub mod volume;

pub use access::Access;
pub use build::{BuildOptions, Built, build, build_archive};
pub use content::{CopyError, copy_content};
pub use describe::{Description, FileKind, FoundFormat, FoundSeal, describe};
pub use error::{Error, Precious};
pub use error_kind::ErrorKind;
pub use extract::{
    ExtractOptions, Extracted, Unrestored, UnrestoredFiles, UnrestoredText, extract,
};
pub use file_system::served;
pub use image_archive::ImageArchiveError;
pub use image_device::ImageDevice;
pub use image_format::{ImageFormat, RomfsOptions};
pub use location::{Location, LocationError};
pub use losses::{LossText, RefusedLosses};
pub use open::{OpenOptions, open};
pub use opened::Opened;
pub use prefetch::{NoCacheError, ParsePrefetchError, Prefetch};
pub use progress::{Progress, Step, Watch};
pub use seal::{NewSeal, SealFormat, SealOptions, digest, seal};
pub use sign::{NewKeyFiles, SealedFile};
pub use trust::{ParseRootHashError, Pins, RootHash, Trust};
pub use verify::{Finding, Report, verify};
#[cfg(feature = "remote")]
pub use verify_cache::{CheckedCopy, verify_cache};

pub use verimount_scan::{Example, Loss, Losses, Lost};

#[cfg(feature = "remote")]
pub use verimount_cache as cache;
pub use verimount_erofs as erofs;
pub use verimount_integrity as integrity;
pub use verimount_mount as mount;
#[cfg(feature = "remote")]
pub use verimount_remote as remote;
pub use verimount_romfs as romfs;
pub use verimount_scan as scan;
pub use verimount_serve as serve;
pub use verimount_source as source;
pub use verimount_tree as tree;
pub use verimount_verity as verity;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
