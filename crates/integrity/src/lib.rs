//! Writable block volumes that notice every wrong byte, in the on-disk format of the Linux kernel's
//! dm-integrity, without the kernel.
//!
//! Each block of a volume has a *tag*, a checksum or a keyed hash of it. A read is handed out only
//! if it matches its tags; how writes stay consistent with them through a crash is the
//! [`Mode`]'s business.
//!
//! [`format()`] makes a volume and [`Volume::open`] opens one; `examples/volume.rs` shows both.
//!
//! The format is specified in `docs/formats/dm-integrity.md`.

mod algorithm;
mod bitmap;
mod bits;
mod blocks;
mod error;
mod format;
mod geometry;
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
pub use format::{FormatOptions, Progress, format};
pub use integrity::Integrity;
pub use key::Key;
pub use mismatch::{BadBlock, Tag};
pub use params::{BlockSize, Interleave, Mode, Padding, ParamError, SECTOR, TagSize};
pub use storage::Devices;
pub use superblock::Superblock;
pub use volume::{BadRange, BadReason, CommitTimer, OpenOptions, Volume, VolumeStats, grow};
