/// Whether the system has certificates of authorities.
pub(crate) fn has_system_certificates() -> Option<bool> {
    Some(verimount_remote::has_system_certificates())
}
