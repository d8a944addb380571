//! What the targets that read verified data share.

use std::sync::Arc;

use verimount_source::{Counting, ReadAt, Scratch};
use verimount_verity::{TreeGeometry, VerifiedReader, VerifyOptions};

/// Little is kept, so that much is read again.
pub fn keeping_little() -> VerifyOptions {
    VerifyOptions {
        cache_bytes: 1 << 16,
        ..VerifyOptions::default()
    }
}

/// Nothing is kept or read ahead, so that a read costs what it needs.
pub fn keeping_nothing() -> VerifyOptions {
    VerifyOptions {
        tree_readahead: 0,
        cache_bytes: 0,
        ..VerifyOptions::default()
    }
}

/// An input's data, whose length is in its first two bytes, little-endian; and what is behind it.
pub fn parts(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = input.split_first_chunk()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}

/// Bytes of which it is counted how many are read.
pub type Counted = Arc<Counting<Vec<u8>>>;

/// Bytes of which it is counted how many are read.
pub fn counted(bytes: &[u8]) -> Counted {
    Arc::new(Counting::new(bytes.to_vec()))
}

/// Does something for which at most so many bytes of these sources are read, whatever they say.
///
/// # Panics
/// If more are read.
pub fn cheaply<T>(sources: &[Counted], most: u64, run: impl FnOnce() -> T) -> T {
    let read = || -> u64 { sources.iter().map(|source| source.counts().bytes).sum() };
    let before = read();
    let result = run();
    let read = read() - before;
    assert!(read <= most, "{read} bytes are read, more than {most}");
    result
}

/// A tree and the sizes of its blocks in bytes, and all that is read of it and of the data.
pub struct Stored<'a> {
    /// Its shape.
    pub geometry: &'a TreeGeometry,
    /// The size of a block of data.
    pub data_block: usize,
    /// The size of a block of the tree.
    pub hash_block: usize,
    /// Where data and tree are.
    pub sources: &'a [Counted],
}

impl Stored<'_> {
    /// Reads fail or give what is expected. None reads a block of the tree twice. `bare` reads with [`keeping_nothing`]: for a byte, a
    /// block of data and one of each level.
    ///
    /// # Panics
    /// If a read gives something else, or reads more.
    pub fn check_reads(&self, reader: &VerifiedReader, bare: &VerifiedReader, expected: &[u8]) {
        let size = usize::try_from(reader.size()).expect("no more than the input has");
        let mut scratch = Scratch::default();
        for range in [0..size, size / 2..size, size / 3..size / 2] {
            let blocks = range.end.div_ceil(self.data_block) - range.start / self.data_block;
            let most = (blocks * self.data_block) as u64 + self.geometry.tree_size();
            let read = cheaply(self.sources, most, || {
                reader.read_borrowed(&mut scratch, range.start as u64, range.len())
            });
            if let Ok(bytes) = read {
                assert_eq!(bytes, &expected[range]);
            }
        }
        let most = self.data_block + self.geometry.levels() * self.hash_block;
        for at in [0, size / 3, size / 2, size.saturating_sub(1)] {
            let len = 1.min(size);
            let read = cheaply(self.sources, most as u64, || {
                bare.read_borrowed(&mut scratch, at as u64, len)
            });
            if let Ok(bytes) = read {
                assert_eq!(bytes, &expected[at..at + len]);
            }
        }
    }
}
