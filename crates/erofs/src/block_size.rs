use thiserror::Error;

/// The size of an image's blocks: a power of two from 512 bytes to 64 KiB, by default 4 KiB. Kernels read only
/// images whose blocks are no larger than their pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSize {
    bits: u8,
}

/// The number is not a power of two from 512 bytes to 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} is not a block size of EROFS: it must be a power of two from 512 bytes to 64 KiB")]
pub struct InvalidBlockSize(
    /// The number.
    pub u64,
);

impl Default for BlockSize {
    fn default() -> Self {
        Self { bits: 12 }
    }
}

impl TryFrom<u64> for BlockSize {
    type Error = InvalidBlockSize;

    fn try_from(bytes: u64) -> Result<Self, InvalidBlockSize> {
        let bits = u8::try_from(bytes.trailing_zeros()).ok();
        let size = bits.filter(|_| bytes.is_power_of_two());
        size.and_then(Self::from_bits)
            .ok_or(InvalidBlockSize(bytes))
    }
}

impl BlockSize {
    /// Blocks of 2^`bits` bytes; `None` if the format has no such blocks.
    pub(crate) const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            9..=16 => Some(Self { bits }),
            _ => None,
        }
    }

    /// The base-2 logarithm.
    pub(crate) const fn bits(self) -> u8 {
        self.bits
    }

    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        // At most 16.
        1_u64.checked_shl(self.bits.into()).unwrap_or(u64::MAX)
    }

    /// Where this block begins, in bytes; `None` if no offset is that large.
    pub(crate) fn start_of(self, block: u64) -> Option<u64> {
        block.checked_mul(self.bytes())
    }

    /// How far behind the beginning of its block an offset is.
    pub(crate) fn offset_in_block(self, at: u64) -> u64 {
        at & self.bytes().saturating_sub(1)
    }

    /// How many blocks `len` bytes take.
    pub(crate) fn blocks_for(self, len: u64) -> u64 {
        len.div_ceil(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_sizes_of_the_format() {
        assert_eq!(BlockSize::from_bits(8), None);
        assert_eq!(BlockSize::from_bits(17), None);
        let page = BlockSize::from_bits(12).unwrap();
        assert_eq!((page.bytes(), page.bits()), (4096, 12));
        assert_eq!(page.offset_in_block(4097), 1);
        assert_eq!([page.blocks_for(4096), page.blocks_for(4097)], [1, 2]);
        assert_eq!(page.start_of(3), Some(3 * 4096));
        assert_eq!(page.start_of(1 << 52), None);
        assert_eq!(
            [Ok(page), Ok(BlockSize::default())],
            [4096; 2].map(BlockSize::try_from)
        );
        for bytes in [0, 256, 4095, 1 << 17, u64::MAX] {
            assert_eq!(BlockSize::try_from(bytes), Err(InvalidBlockSize(bytes)));
        }
    }
}
