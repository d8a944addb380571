use std::mem::take;

use verimount_mirrors::MirrorStats;

use crate::status::end_of;

/// The longest name of a place in a status, in bytes: those of all places fit into it.
const MAX_NAME: usize = 256;

/// With names of places that are so short that they fit into a status.
pub(crate) fn bounded(mut stats: MirrorStats) -> MirrorStats {
    for place in &mut stats.places {
        place.place = end_of(take(&mut place.place), MAX_NAME);
    }
    stats
}
