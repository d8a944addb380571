use verimount_content::{CacheStatus, OriginFailure, OriginReplacement, OriginStatus};

use crate::{status::end_of, verified_tree::MAX_TEXT};

/// With texts that are so short that they fit into a status.
pub(crate) fn bounded(status: OriginStatus) -> OriginStatus {
    OriginStatus {
        last_failure: status.last_failure.map(|failure| OriginFailure {
            reason: end_of(failure.reason, MAX_TEXT),
            ..failure
        }),
        replaced: status.replaced.map(|replaced| OriginReplacement {
            place: end_of(replaced.place, MAX_TEXT),
            ..replaced
        }),
        cache: status.cache.map(|cache| CacheStatus {
            directory: end_of(cache.directory, MAX_TEXT),
            ..cache
        }),
        ..status
    }
}
