//! The details of options: how trees are scanned, the parameters of formats, Merkle trees and connections.

#[cfg(feature = "build")]
pub use verimount_erofs::{
    BlockSize as ErofsBlockSize, ClusterSize, Codec, Compression, Options as ErofsOptions,
    VolumeName as ErofsVolumeName,
};
#[cfg(feature = "build")]
pub use verimount_romfs::{
    BlockSize as RomfsBlockSize, Options as RomfsImageOptions, VolumeName as RomfsVolumeName,
};
#[cfg(feature = "build")]
pub use verimount_scan::{
    AddedFile, AttributeChoice, Links, Loss, Losses, Options as ScanOptions, OutwardLinks, Owner,
    Patterns as Exclude, Times, Whiteouts,
};
pub use verimount_tree::Lost;
pub use verimount_verity::{
    BadReason, BlockKind, BlockSize, Descriptor, Error as SealError, HashAlgorithm, Salt, Sealed,
    TreeParams, VerifyStats, dm_verity, parse_hex,
};

#[cfg(feature = "remote")]
pub use verimount_remote::{Authorities, Headers, ParseAuthoritiesError, ParseHeadersError};
