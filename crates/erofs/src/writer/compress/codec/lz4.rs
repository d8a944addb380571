use lzzzz::{lz4, lz4_hc};

use super::Filled;
use crate::writer::compress::Lz4Level;

/// The most bytes that the C library takes: those of its slower method.
pub(super) const MEMORY: u64 = 300 << 10;

/// The lowest level of the slower method. The levels below are the fast method.
const SLOWER: u8 = 2;

/// LZ4, whose library fills a buffer with as much as fits.
pub(in crate::writer::compress) struct Lz4 {
    level: Lz4Level,
    cluster: Box<[u8]>,
}

impl Lz4 {
    pub(super) fn new(level: Lz4Level, cluster: usize) -> Self {
        Self {
            level,
            cluster: vec![0; cluster].into(),
        }
    }

    pub(super) fn fill(&mut self, input: &[u8]) -> Option<Filled<'_>> {
        let filled = match self.level.get() {
            level @ SLOWER.. => lz4_hc::compress_fill(input, &mut self.cluster, level.into()),
            _ => lz4::compress_fill(input, &mut self.cluster),
        };
        let (taken, len) = filled.ok()?;
        Some(Filled {
            taken,
            bytes: self.cluster.get(..len)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_filled_with_as_much_as_fits() {
        let text: Vec<u8> = (0..20_000_u32)
            .flat_map(|number| number.to_string().into_bytes())
            .collect();
        for level in [1, 2, 3, 9, 12] {
            let mut lz4 = Lz4::new(Lz4Level::new(level).unwrap(), 4096);
            let mut fill = |input: &[u8]| {
                let filled = lz4.fill(input).unwrap();
                (filled.taken, filled.bytes.to_vec())
            };
            let (taken, bytes) = fill(&text);
            assert!((4000..=4096).contains(&bytes.len()), "{}", bytes.len());
            assert!(taken > bytes.len() && taken < text.len(), "{taken}");
            // Its memory is used again.
            assert_eq!(fill(&text), (taken, bytes));
            assert_eq!(fill(&text[..100]).0, 100);
        }
    }
}
