use std::fmt;

/// Memory for reads that bypass the page cache, which require whole, aligned pages.
#[derive(Default)]
pub struct AlignedBuf {
    memory: Vec<u8>,
    len: usize,
}

impl AlignedBuf {
    /// Alignment of the memory in bytes: at least what any device requires.
    pub const ALIGNMENT: usize = 4096;

    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::default();
        buf.grown(len);
        buf
    }

    /// The first `len` bytes. The buffer grows if needed, and is not cleared otherwise.
    pub fn grown(&mut self, len: usize) -> &mut [u8] {
        if self.len < len {
            // Growing a vector would copy its old contents, which nobody needs.
            self.memory = vec![0; len + Self::ALIGNMENT];
            self.len = len;
        }
        let start = self.start();
        // Empty until memory was first requested.
        self.memory.get_mut(start..start + len).unwrap_or_default()
    }

    /// All bytes.
    pub fn as_slice(&self) -> &[u8] {
        let start = self.start();
        self.memory.get(start..start + self.len).unwrap_or_default()
    }

    fn start(&self) -> usize {
        self.memory.as_ptr().align_offset(Self::ALIGNMENT)
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_only_grows() {
        let mut buf = AlignedBuf::default();
        assert!(buf.as_slice().is_empty());
        assert!(buf.grown(0).is_empty());
        for len in [1, 5000, 3, 5001] {
            let bytes = buf.grown(len);
            assert_eq!(bytes.len(), len);
            assert_eq!(bytes.as_ptr().align_offset(AlignedBuf::ALIGNMENT), 0);
        }
        assert_eq!(buf.as_slice().len(), 5001);
        assert_eq!(AlignedBuf::zeroed(10).as_slice(), [0; 10]);
    }
}
