//! Objects in clouds: `s3://`, `gs://` and `az://`, read as [`RemoteFile`](crate::RemoteFile)s, and stored.
//!
//! An object is read by URLs that are signed for a quarter of an hour and renewed in time. Settings and
//! credentials come from the environment, by the names that the tools of each cloud use.

mod bucket;
mod buckets;
mod environment;
mod name;
mod object;
mod provider;
mod transport;

pub(crate) use buckets::Buckets;
#[cfg(test)]
pub(crate) use environment::Environment;
pub use name::{ObjectName, ParseObjectNameError};
pub(crate) use object::Object;
pub use provider::Cloud;
