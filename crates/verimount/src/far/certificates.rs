use verimount_remote::has_system_certificates;

use crate::doctor::Diagnosis;

/// By whose certificates servers are believed.
pub(crate) fn certificates() -> Option<Diagnosis> {
    const ABOUT: &str = "certificates";
    Some(if has_system_certificates() {
        Diagnosis::good(ABOUT, "the system has those of authorities")
    } else {
        Diagnosis::limited(
            ABOUT,
            "the system has none of authorities: servers are believed by those in this program, which become old",
            "apt install ca-certificates",
        )
    })
}
