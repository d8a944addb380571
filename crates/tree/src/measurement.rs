/// What fs-verity measures of a file: the digest that identifies its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// The number of the hash algorithm in `linux/fsverity.h`.
    pub algorithm: u16,
    /// The digest, at most 64 bytes.
    pub digest: Vec<u8>,
}
