//! Writable block volumes that detect every corrupted byte, in the on-disk format of the Linux
//! kernel's dm-integrity, implemented in user space.
//!
//! Each block of a volume has a *tag*: a checksum or keyed hash of its contents. A read returns
//! data only if it matches its tags. The [`Mode`] decides how data and tags stay consistent through
//! a crash.
//!
//! [`format()`] makes a volume and [`Volume::open`] opens one; `examples/volume.rs` shows both.
//!
//! The format is specified in `docs/formats/dm-integrity.md`.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod algorithm;
mod bitmap;
mod bits;
mod blocks;
mod error;
mod format;
mod geometry;
mod header;
mod integrity;
mod journal;
mod key;
mod mac;
mod mismatch;
mod params;
mod range_lock;
mod raw;
mod recalculation;
mod storage;
mod superblock;
mod tag_cache;
mod tagger;
mod volume;

pub use algorithm::Algorithm;
pub use error::{Corruption, Error, Unsupported, Usage};
pub use format::{FormatOptions, format};
pub use header::Header;
pub use integrity::Integrity;
pub use key::Key;
pub use mismatch::{BadBlock, Tag};
pub use params::{BlockSize, DiskSize, Interleave, Mode, Padding, ParamError, SECTOR, TagSize};
pub use storage::Devices;
pub use superblock::{Shape, Superblock};
pub use volume::{
    BadRange, BadReason, CheckedHeader, CommitTimer, OpenOptions, RestoreOptions, Volume,
    VolumeStats, check_header, grow,
};

pub use verimount_source::Progress;
