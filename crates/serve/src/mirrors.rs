use serde::{Deserialize, Serialize};
use verimount_mirrors::{MirrorStats, PlaceStats};

use crate::status::end_of;

/// The longest name of a place in a status, in bytes: those of all places fit into it.
const MAX_NAME: usize = 256;

/// The statistics of content that is in several places.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MirrorsStatus {
    /// Reads of data or of the Merkle tree that another place than the first answered, at least in part.
    pub healed: u64,
    /// Ranges that were replaced by right bytes.
    pub ranges_repaired: u64,
    /// The places, in the order in which they are asked.
    pub places: Vec<PlaceStatus>,
}

/// The statistics of a place of content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaceStatus {
    /// Where it is. A long name is shortened to an ellipsis and its end.
    pub place: String,
    /// Reads that it was asked for.
    pub asked: u64,
    /// Reads that failed, or were late.
    pub failed: u64,
    /// Ranges that did not match.
    pub wrong: u64,
    /// Bytes that were replaced there by right ones.
    pub bytes_repaired: u64,
    /// Whether it is not asked now, as it has failed.
    pub rests: bool,
}

impl From<MirrorStats> for MirrorsStatus {
    fn from(stats: MirrorStats) -> Self {
        Self {
            healed: stats.healed,
            ranges_repaired: stats.ranges_mended,
            places: stats.places.into_iter().map(PlaceStatus::from).collect(),
        }
    }
}

impl From<PlaceStats> for PlaceStatus {
    fn from(stats: PlaceStats) -> Self {
        Self {
            place: end_of(stats.name, MAX_NAME),
            asked: stats.asked,
            failed: stats.failed,
            wrong: stats.wrong,
            bytes_repaired: stats.bytes_mended,
            rests: stats.rests,
        }
    }
}
