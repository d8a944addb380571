//! Merkle trees in the kernel's dm-verity format.
//!
//! A device's *root hash* is the root of a Merkle tree over its blocks. [`seal`] stores a
//! superblock and the tree, [`HashArea`] opens them, and the reader made from it returns bytes only
//! after they matched the root hash.
//!
//! Format: the kernel's `Documentation/admin-guide/device-mapper/verity.rst`, restated in
//! `docs/formats/dm-verity.md`.

mod hash_area;
mod params;
mod seal;
mod superblock;

pub use hash_area::HashArea;
pub use params::{BlockSize, Params, Salt};
pub use seal::{SealedDevice, append_seal, seal};
pub use superblock::SUPERBLOCK_SIZE;
