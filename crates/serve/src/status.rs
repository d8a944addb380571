use serde::{Deserialize, Serialize};
use verimount_bridge::BridgeStatus;

use crate::{ImageStatus, VolumeStatus};

/// What a mount does and did.
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
