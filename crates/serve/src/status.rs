use serde::{Deserialize, Serialize};
use verimount_bridge::BridgeStatus;

use crate::{Daemon, ImageStatus, VolumeStatus};

/// What a mount does and did. Programs of other versions read it: what they do not know they pass
/// over, and what they miss is zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Status {
    /// Of an image or a sealed file.
    Image(ImageStatus),
    /// Of a mirrored directory.
    Bridge(BridgeStatus),
    /// Of a volume.
    Volume(VolumeStatus),
}

/// The part of a [`Status`] that tells who closes what is mounted after it was unmounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Closer {
    /// Of a volume, the process; nobody else has anything to close.
    #[serde(default)]
    pub daemon: Option<Daemon>,
}
