//! Container registries: what they store, read as [`RemoteFile`](crate::RemoteFile)s, and stored.
//!
//! It is the protocol of the OCI distribution specification, as far as one repository is concerned.

mod access;
mod auth_files;
mod challenge;
mod digest;
mod helper;
mod host;
mod manifest;
mod reference;
mod repository;
mod status;
mod upload;

pub(crate) use access::Access;
pub(crate) use auth_files::{AuthFiles, Credential};
pub use digest::{BlobDigest, BlobHasher, ParseBlobDigestError};
pub(crate) use host::Host;
pub use manifest::{Descriptor, MANIFEST_TYPE, Manifest, ManifestError};
pub use reference::{ParseReferenceError, Reference};
pub use repository::{Repository, Rights};
