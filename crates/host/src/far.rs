//! What this machine has for content on others.
//!
//! With the feature `remote`; without it, `far/absent.rs` takes this place.

use verimount_remote::has_system_certificates;
pub(crate) use verimount_remote::{helper_tasks, own_files};

use crate::doctor::Diagnosis;

/// By whose certificates servers are believed.
pub(crate) fn certificates() -> Option<Diagnosis> {
    let old = (
        "the system has none of authorities: servers are believed by those in this program, which become old",
        "apt install ca-certificates",
    );
    let (is_good, good) = (
        has_system_certificates(),
        "the system has those of authorities",
    );
    Some(Diagnosis::judged("certificates", is_good, good, old))
}
