//! The options of our own that an export answers in the handshake of NBD. Their numbers are far from those that the
//! protocol gives out one by one; other servers answer that they do not know them.

/// The status, in one reply. There is none to end the server: that takes the permission to send it a signal, which
/// the kernel checks.
pub(crate) const STATUS: u32 = u32::from_be_bytes(*b"veri");

/// The longest status, in bytes: that of a mount's has to fit into an extended attribute of this size.
pub(crate) const MAX_STATUS: u32 = 64 << 10;

/// A check, while clients use the export. Each reply is a [`CheckEvent`](crate::CheckEvent).
pub(crate) const CHECK: u32 = u32::from_be_bytes(*b"vchk");

/// The longest event of a check, in bytes.
pub(crate) const MAX_EVENT: u32 = 4096;
