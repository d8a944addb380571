use thiserror::Error;

/// The block size of an image: a power of two from 1 KiB to 1 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSize(u32);

/// The number is not a power of two from 1 KiB to 1 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} is not a block size: it must be a power of two from 1 KiB to 1 MiB")]
pub struct InvalidBlockSize(pub u64);

impl BlockSize {
    /// 1 KiB: every romfs image is padded to a multiple of this.
    pub const MIN: Self = Self(1 << 10);

    /// 1 MiB: larger requests gain nothing, and alignment must not waste more.
    pub const MAX: Self = Self(1 << 20);

    /// 4 KiB: the page size of most machines, and the largest that the kernel's romfs supports.
    pub const DEFAULT: Self = Self(4 << 10);

    /// The size in bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }
}

impl Default for BlockSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<u64> for BlockSize {
    type Error = InvalidBlockSize;

    fn try_from(bytes: u64) -> Result<Self, InvalidBlockSize> {
        u32::try_from(bytes)
            .ok()
            .filter(|bytes| bytes.is_power_of_two())
            .map(Self)
            .filter(|size| (Self::MIN..=Self::MAX).contains(size))
            .ok_or(InvalidBlockSize(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_in_range_are_block_sizes() {
        for log2 in 10..=20 {
            assert_eq!(BlockSize::try_from(1 << log2).unwrap().bytes(), 1 << log2);
        }
        for bytes in [
            0,
            1,
            512,
            1025,
            3072,
            1 << 21,
            1 << 32,
            (1 << 32) + 1024,
            u64::MAX,
        ] {
            assert_eq!(BlockSize::try_from(bytes), Err(InvalidBlockSize(bytes)));
        }
    }
}
