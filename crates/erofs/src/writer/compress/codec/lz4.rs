use verimount_sys::Lz4Filler;

use super::Filled;
use crate::writer::compress::Lz4Level;

/// The most bytes that the C library takes: those of its slower method.
pub(super) const MEMORY: u64 = 300 << 10;

/// LZ4, whose library fills a buffer with as much as fits.
pub(in crate::writer::compress) struct Lz4 {
    filler: Lz4Filler,
    cluster: Box<[u8]>,
}

impl Lz4 {
    pub(super) fn new(level: Lz4Level, cluster: usize) -> Self {
        Self {
            filler: Lz4Filler::new(level.get()),
            cluster: vec![0; cluster].into(),
        }
    }

    pub(super) fn fill(&mut self, input: &[u8]) -> Option<Filled<'_>> {
        let block = self.filler.fill(input, &mut self.cluster)?;
        Some(Filled {
            taken: block.taken,
            bytes: self.cluster.get(..block.len)?,
        })
    }
}
