//! The layout arithmetic shared by the reader and the writer.

use crate::raw;

/// The alignment of every structure in an image, in bytes.
pub(crate) const ALIGNMENT: u32 = 16;

/// Images are padded to a multiple of at least this; a header index starts on a multiple of it.
pub(crate) const PADDING: u64 = 1024;

/// The bytes at the start of an image that the superblock's checksum covers.
pub(crate) const CHECKSUMMED: usize = 512;

/// The length of the smallest header: the fixed part and a name of up to 15 bytes.
pub(crate) const MIN_HEADER_LEN: u32 = 32;

/// The length of the largest header: the fixed part and a name of [`crate::name::MAX_LEN`] bytes.
pub(crate) const MAX_HEADER_LEN: usize = 160;

/// The length of a superblock or file header with a name of `name_len` bytes, including padding.
pub(crate) fn header_len(name_len: usize) -> usize {
    let fixed = size_of::<raw::FileHeader>();
    let name = name_len.saturating_add(1);
    fixed.saturating_add(name).next_multiple_of(16)
}

/// The offset of the header index of an image with `image_size` accessible bytes.
pub(crate) fn index_offset(image_size: u32) -> u64 {
    u64::from(image_size).next_multiple_of(PADDING)
}

/// The length of `count` records of type `T` in bytes.
pub(crate) fn len_of<T>(count: u32) -> u64 {
    let len = u64::try_from(size_of::<T>()).unwrap_or(u64::MAX);
    len.saturating_mul(count.into())
}

/// The checksum of `bytes`: the sum of their big-endian words, zero if they are intact.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    let (words, _) = bytes.as_chunks::<4>();
    words
        .iter()
        .fold(0, |sum, word| sum.wrapping_add(u32::from_be_bytes(*word)))
}

/// A length or offset of an image as a length in memory.
pub(crate) fn to_usize(len: u32) -> usize {
    // No target of the standard library's Unix has pointers of less than 32 bits.
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_ends_on_sixteen_bytes_after_the_names_nul() {
        for (name_len, len) in [(0, 32), (1, 32), (15, 32), (16, 48), (127, 144), (128, 160)] {
            assert_eq!(header_len(name_len), len);
        }
        assert_eq!(header_len(crate::name::MAX_LEN), MAX_HEADER_LEN);
    }

    #[test]
    fn the_sum_wraps_and_ignores_a_part_of_a_word() {
        assert_eq!(sum(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 2, 9, 9]), 1);
    }
}
