use rustix::io::Errno;

/// A disk of a fixed size, used by several threads at once.
///
/// All ranges are inside it. Errors are what the client is told, as far as NBD has them.
pub trait Export: Send + Sync {
    /// The size in bytes.
    fn size(&self) -> u64;

    /// What requests should be like.
    fn block_sizes(&self) -> BlockSizes;

    /// Whether nothing can be changed.
    fn is_read_only(&self) -> bool;

    /// Whether parts can be discarded.
    fn can_trim(&self) -> bool;

    /// What is told to those who ask for the export's status ([`ask_status`](crate::ask_status)).
    fn status(&self) -> Vec<u8>;

    /// Fills `buf` with the bytes from `offset` on.
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Errno>;

    /// Writes all of `bytes` from `offset` on.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Errno>;

    /// Returns when all that had been written before, by whichever client, survives a crash.
    fn flush(&self) -> Result<(), Errno>;

    /// Says that the contents of `len` bytes from `offset` on are not needed any more.
    fn trim(&self, offset: u64, len: u64) -> Result<(), Errno>;

    /// Makes `len` bytes from `offset` on zero.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Errno>;
}

/// What requests should be like; those that are not are answered all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Requests should be multiples of this many bytes: a power of two.
    pub minimum: u32,
    /// Requests of this many bytes do best: a power of two.
    pub preferred: u32,
}
