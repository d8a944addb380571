//! Merkle trees in the kernel's formats, fs-verity and dm-verity: build, seal, sign, and read
//! verified.
//!
//! A *file digest* is the hash of a [`Descriptor`], which holds the root of a Merkle tree over the
//! file's blocks. [`build_tree`] computes it, [`Sealed`] opens the stored tree and descriptor, [`Trust`] makes a [`Seal`] of
//! what it accepts, and a [`VerifiedReader`] of that returns bytes only after they matched the tree.
//!
//! Format: the kernel's `Documentation/filesystems/fsverity.rst`, restated in
//! `docs/formats/fs-verity.md`. The differences of dm-verity are in [`dm_verity`]; hashing,
//! building and reading are the same.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod account;
mod algorithm;
mod builder;
mod checked;
mod descriptor;
mod digest;
pub mod dm_verity;
mod error;
mod file_sink;
mod further;
mod geometry;
mod hasher;
mod leaves;
mod mismatch;
mod params;
mod releases;
mod seal;
mod seal_file;
mod sealed;
mod signature;
#[cfg(feature = "sign")]
mod signing;
mod survey;
mod tree;
mod trust;
mod unfinished;
mod verified;

pub use account::{Account, VerifyStats};
pub use algorithm::HashAlgorithm;
pub use builder::{TreeSink, build_tree};
pub use checked::Checked;
pub use descriptor::{DESCRIPTOR_SIZE, Descriptor};
pub use digest::{Digest, FileDigest, Identity, ParseDigestError, parse_hex};
pub use error::{Corruption, Error};
pub use geometry::TreeGeometry;
pub use hasher::BlockHasher;
pub use leaves::Leaves;
pub use mismatch::{BlockKind, Mismatch};
pub use params::{BlockSize, BlockSizeFrom, ParamError, Salt, SaltUpTo, TreeParams};
pub use releases::Releases;
pub use seal::Seal;
pub use sealed::{SEAL_BLOCK, SealLayout, Sealed, append_seal, is_signed, seal};
pub use signature::{KeyId, MAX_SIGNATURE_SIZE, PublicKey, Signature};
#[cfg(feature = "sign")]
pub use signing::{KeyPair, SecretKey};
pub use survey::{BadRange, BadReason, survey};
pub use trust::Trust;
pub use verified::{VerifiedReader, VerifyOptions};

pub use verimount_source::Progress;
