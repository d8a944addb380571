//! What the targets that read verified data share.

use std::sync::Arc;

use verimount_source::{Counting, ReadAt, Scratch};
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

/// The most bytes that are read to open a seal: its end with a signature, and the topmost block of a tree.
const MOST_TO_OPEN: u64 = 96 << 10;

/// Bytes of which it is counted how many are read.
pub fn counted(bytes: &[u8]) -> Arc<Counting<Vec<u8>>> {
    Arc::new(Counting::new(bytes.to_vec()))
}

/// Opens what these sources hold, for which little is read, whatever they say.
///
/// # Panics
/// If more is read.
pub fn open_cheaply<T, E>(
    sources: &[&Counting<Vec<u8>>],
    open: impl FnOnce() -> Result<T, E>,
) -> Option<T> {
    let read = || -> u64 { sources.iter().map(|source| source.counts().bytes).sum() };
    let before = read();
    let opened = open();
    let read = read() - before;
    assert!(read <= MOST_TO_OPEN, "{read} bytes to open it");
    opened.ok()
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
