//! Reads in blocks, as the kernel reads a disk.

use std::num::NonZeroU32;

use verimount_source::{ReadAt, ReadError, check_range};

/// Reads another source in blocks: each request lies inside one.
#[derive(Debug)]
pub(crate) struct Blocks<S> {
    inner: S,
    size: NonZeroU32,
}

impl<S: ReadAt> Blocks<S> {
    /// Reads `inner` in blocks of `size` bytes.
    pub(crate) fn new(inner: S, size: NonZeroU32) -> Self {
        Self { inner, size }
    }
}

impl<S: ReadAt> ReadAt for Blocks<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size())?;
        let block = u64::from(self.size.get());
        while !buf.is_empty() {
            let to_block_end = (block - offset % block) as usize;
            let (now, later) = buf.split_at_mut(to_block_end.min(buf.len()));
            self.inner.read_exact_at(now, offset)?;
            offset += now.len() as u64;
            buf = later;
        }
        Ok(())
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.inner.will_need(offset, len);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        self.inner.will_reach(offset, len);
    }
}

#[cfg(test)]
mod tests {
    use verimount_source::Counting;

    use super::*;

    #[test]
    fn a_request_stays_inside_a_block() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|i| (i ^ (i >> 8)) as u8).collect();
        let counted = Counting::new(bytes.clone());
        let blocks = Blocks::new(&counted, NonZeroU32::new(1024).unwrap());
        let mut buf = vec![0; 5000];
        blocks.read_exact_at(&mut buf, 1000).unwrap();
        assert_eq!(buf, bytes[1000..6000]);
        // 24 bytes of the first block, four whole ones, and 880 bytes of the last.
        assert_eq!(counted.counts().requests, 6);
        assert!(blocks.read_exact_at(&mut buf, 5001).is_err());
    }
}
