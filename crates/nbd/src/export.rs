use rustix::io::Errno;

use crate::OwnOption;

/// A disk of a fixed size that several threads use concurrently.
///
/// Callers only pass ranges inside the disk. Errors are reported to the client; those without an
/// NBD number become `EIO`.
pub trait Export: Send + Sync {
    /// The size in bytes.
    fn size(&self) -> u64;

    /// The recommended request sizes.
    fn block_sizes(&self) -> BlockSizes;

    /// Whether the disk is read-only.
    fn is_read_only(&self) -> bool;

    /// Whether the disk supports [`Self::trim`].
    fn can_trim(&self) -> bool;

    /// Its answer to an option of the handshake that NBD does not define; `None` if it does not know the
    /// option either. Clients ask with the functions of [`client`](crate::client).
    fn own_option(&self, option: u32) -> Option<OwnOption<'_>> {
        let _ = option;
        None
    }

    /// Fills `buf` with the bytes from `offset` on.
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Errno>;

    /// Writes all of `bytes` from `offset` on.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Errno>;

    /// Returns when all earlier writes, by any client, are durable.
    fn flush(&self) -> Result<(), Errno>;

    /// Discards `len` bytes from `offset` on.
    fn trim(&self, offset: u64, len: u64) -> Result<(), Errno>;

    /// Zeroes `len` bytes from `offset` on.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Errno>;
}

/// The recommended request sizes. Other requests are answered too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Requests should be multiples of this many bytes, a power of two.
    pub minimum: u32,
    /// Requests of this many bytes, a power of two, perform best.
    pub preferred: u32,
}
