//! What the targets that read verified data share.

use verimount_source::{ReadAt, Scratch};
use verimount_verity::{TreeReadahead, VerifiedReader, VerifyOptions};

/// Little is kept, so that much is read again.
pub const OPTIONS: VerifyOptions = VerifyOptions {
    tree_readahead: TreeReadahead::Auto,
    cache_bytes: 1 << 16,
};

/// An input's data, whose length is in its first two bytes, little-endian; and what is behind it.
pub fn parts(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = input.split_first_chunk()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}

/// Reads fail or give what is expected.
///
/// # Panics
/// If one gives something else.
pub fn check_reads(reader: &VerifiedReader, expected: &[u8]) {
    let size = usize::try_from(reader.size()).expect("no more than the input has");
    let mut scratch = Scratch::default();
    for range in [0..size, size / 2..size, size / 3..size / 2] {
        if let Ok(bytes) = reader.read_borrowed(&mut scratch, range.start as u64, range.len()) {
            assert_eq!(bytes, &expected[range]);
        }
    }
}
