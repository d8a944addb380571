use verimount_mirrors::{MirrorStats, PlaceStats};

use crate::status::end_of;

/// The longest name of a place in a status, in bytes: those of all places fit into it.
const MAX_NAME: usize = 256;

/// With names of places that are so short that they fit into a status.
pub(crate) fn bounded(stats: MirrorStats) -> MirrorStats {
    let places = stats.places.into_iter().map(|place| PlaceStats {
        place: end_of(place.place, MAX_NAME),
        ..place
    });
    MirrorStats {
        places: places.collect(),
        ..stats
    }
}
