//! Bridges: directories mirrored through a policy, which decides each open.

use std::path::Path;

use verimount_serve::Served;

pub use verimount_bridge::{
    BridgeStatus, Caller, Mirror, MirrorOptions, Passthrough, PolicyStatus, ReloadFailure, explain,
    policy,
};
pub use verimount_serve::{BridgeFs, BridgeOptions, CachePolicy, PolicyFile};

/// Describes what this process serves of the directory at `path` from now on, for its status.
pub fn served(path: &Path) -> Served {
    crate::mount::served(path, None)
}
