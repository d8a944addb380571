use std::mem::take;

use verimount_content::OriginStatus;

use crate::{status::end_of, verified_tree::MAX_TEXT};

/// With texts that are so short that they fit into a status.
pub(crate) fn bounded(mut status: OriginStatus) -> OriginStatus {
    if let Some(failure) = &mut status.last_failure {
        failure.reason = end_of(take(&mut failure.reason), MAX_TEXT);
    }
    if let Some(replaced) = &mut status.replaced {
        replaced.place = end_of(take(&mut replaced.place), MAX_TEXT);
    }
    if let Some(cache) = &mut status.cache {
        cache.directory = end_of(take(&mut cache.directory), MAX_TEXT);
    }
    status
}
