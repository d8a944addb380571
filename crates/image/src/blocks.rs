use verimount_romfs::BlockSize;
use verimount_source::{ReadAt, ReadError, check_range};

/// Reads another source in blocks: each request lies inside one.
pub struct Blocks<S> {
    inner: S,
    size: BlockSize,
}

impl<S: ReadAt> Blocks<S> {
    /// Reads `inner` in blocks of this size.
    pub fn new(inner: S, size: BlockSize) -> Self {
        Self { inner, size }
    }
}

impl<S: ReadAt> ReadAt for Blocks<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size())?;
        let block = u64::from(self.size.bytes());
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
}
