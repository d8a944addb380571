use verimount_names::named;

named! {
    /// The algorithm that computes a block's tag, named as `integritysetup` does.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub enum Algorithm {
        /// CRC-32C (Castagnoli): 4 bytes, the cheapest by far.
        #[default]
        Crc32c = "crc32c",
        /// CRC-32 (IEEE) with initial value 0 and no final inversion: 4 bytes.
        Crc32 = "crc32",
        /// xxHash64 with seed 0: 8 bytes.
        Xxhash64 = "xxhash64",
        /// SHA-1: 20 bytes.
        Sha1 = "sha1",
        /// SHA-256: 32 bytes.
        Sha256 = "sha256",
        /// SHA-512: 64 bytes.
        Sha512 = "sha512",
        /// BLAKE2b with a 32-byte digest.
        Blake2b256 = "blake2b-256",
        /// BLAKE2s with a 32-byte digest.
        Blake2s256 = "blake2s-256",
        /// HMAC with SHA-256: 32 bytes, needs a key.
        HmacSha256 = "hmac-sha256",
        /// HMAC with SHA-512: 64 bytes, needs a key.
        HmacSha512 = "hmac-sha512",
    }
}

impl Algorithm {
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
