//! Conversions between lengths in an image and in memory, which lose nothing on any Linux.

/// A length in memory as one in an image.
pub(crate) fn to_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A length in an image as one in memory; one that no memory has is cut off.
pub(crate) fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
