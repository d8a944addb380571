use std::fmt;

/// The algorithm that computes a block's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// CRC-32C (Castagnoli): 4 bytes, the cheapest by far.
    #[default]
    Crc32c,
    /// CRC-32 (IEEE) with initial value 0 and no final inversion: 4 bytes.
    Crc32,
    /// xxHash64 with seed 0: 8 bytes.
    Xxhash64,
    /// SHA-1: 20 bytes.
    Sha1,
    /// SHA-256: 32 bytes.
    Sha256,
    /// SHA-512: 64 bytes.
    Sha512,
    /// BLAKE2b with a 32-byte digest.
    Blake2b256,
    /// BLAKE2s with a 32-byte digest.
    Blake2s256,
    /// HMAC with SHA-256: 32 bytes, needs a key.
    HmacSha256,
    /// HMAC with SHA-512: 64 bytes, needs a key.
    HmacSha512,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 10] = [
        Self::Crc32c,
        Self::Crc32,
        Self::Xxhash64,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Blake2b256,
        Self::Blake2s256,
        Self::HmacSha256,
        Self::HmacSha512,
    ];

    /// The name that `integritysetup` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Crc32 => "crc32",
            Self::Xxhash64 => "xxhash64",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Blake2b256 => "blake2b-256",
            Self::Blake2s256 => "blake2s-256",
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha512 => "hmac-sha512",
        }
    }

    /// The length of the digest in bytes, which is also the default tag size.
    pub const fn digest_size(self) -> u16 {
        match self {
            Self::Crc32c | Self::Crc32 => 4,
            Self::Xxhash64 => 8,
            Self::Sha1 => 20,
            Self::Sha256 | Self::Blake2b256 | Self::Blake2s256 | Self::HmacSha256 => 32,
            Self::Sha512 | Self::HmacSha512 => 64,
        }
    }

    /// Whether it needs a key.
    pub const fn is_keyed(self) -> bool {
        matches!(self, Self::HmacSha256 | Self::HmacSha512)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
