//! Objects in clouds: `s3://`, `gs://` and `az://`, read as [`RemoteFile`](crate::RemoteFile)s, and stored.
//!
//! An object is read by URLs that are signed for a quarter of an hour and renewed in time. Settings and
//! credentials come from the environment, by the names that the tools of each cloud use.

#[cfg_attr(not(feature = "clouds"), path = "cloud/buckets/absent.rs")]
pub(crate) mod buckets;
mod name;
mod provider;

pub(crate) use buckets::{Buckets, Object, credential_files};
pub use name::{ObjectName, ParseObjectNameError};
pub use provider::Cloud;
