//! Bridges: directories mirrored through a policy, which decides each open.

pub use verimount_bridge::{
    Audit, BridgeStatus, Caller, Counter, Mirror, MirrorOptions, Passthrough, PolicyStatus,
    ReloadFailure, explain, policy,
};
pub use verimount_serve::{BridgeFs, BridgeOptions, CachePolicy, PolicyFile};
