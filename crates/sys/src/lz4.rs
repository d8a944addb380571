//! LZ4 blocks that fill a buffer, which no safe library makes. `lz4-sys` links the C library, but does not declare
//! these of its functions.

use std::ffi::{c_char, c_int, c_void};

use lz4_sys as _;

// SAFETY: as in `lz4.h` and `lz4hc.h` of the library.
unsafe extern "C" {
    fn LZ4_compress_destSize(
        src: *const c_char,
        dst: *mut c_char,
        src_size: *mut c_int,
        dst_size: c_int,
    ) -> c_int;
    fn LZ4_compress_HC_destSize(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_size: *mut c_int,
        dst_size: c_int,
        level: c_int,
    ) -> c_int;
    fn LZ4_sizeofStateHC() -> c_int;
}

/// How much of the input an LZ4 block has, and how long it is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lz4Block {
    /// Bytes of the input.
    pub taken: usize,
    /// Bytes of the block.
    pub len: usize,
}

/// Makes LZ4 blocks that fill a buffer with as much of an input as fits.
#[derive(Debug)]
pub struct Lz4Filler {
    level: c_int,
    /// Memory of the slower method; empty for the fast one.
    state: Box<[u64]>,
}

impl Lz4Filler {
    /// The lowest level of the slower method. The levels below are the fast method.
    pub const SLOWER: u8 = 2;

    /// Compresses by this level, from 1 to 12.
    pub fn new(level: u8) -> Self {
        // SAFETY: it only returns a number.
        let size = unsafe { LZ4_sizeofStateHC() };
        let size = match level >= Self::SLOWER {
            true => usize::try_from(size).unwrap_or_default(),
            false => 0,
        };
        Self {
            level: level.into(),
            state: vec![0; size.div_ceil(size_of::<u64>())].into(),
        }
    }

    /// Compresses a beginning of `src` into `dst`, as long as possible; `None` if nothing fits.
    pub fn fill(&mut self, src: &[u8], dst: &mut [u8]) -> Option<Lz4Block> {
        // The library compares positions before the input's end, which wrap around if an empty slice is at address 1.
        if src.is_empty() {
            return None;
        }
        let len = |bytes: &[u8]| c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
        let (mut taken, room) = (len(src), len(dst));
        let (from, to) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        let len = match self.state.is_empty() {
            // SAFETY: `taken` bytes can be read at `from`, and `room` bytes written at `to`.
            true => unsafe { LZ4_compress_destSize(from, to, &raw mut taken, room) },
            // SAFETY: the same, and the state has the size that is asked for, and is aligned for pointers.
            false => unsafe {
                let state = self.state.as_mut_ptr().cast();
                LZ4_compress_HC_destSize(state, from, to, &raw mut taken, room, self.level)
            },
        };
        match (usize::try_from(taken), usize::try_from(len)) {
            (Ok(taken @ 1..), Ok(len @ 1..)) => Some(Lz4Block { taken, len }),
            _ => None,
        }
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
            let mut filler = Lz4Filler::new(level);
            let mut buffer = [0; 4096];
            let block = filler.fill(&text, &mut buffer).unwrap();
            assert!(block.len > 4000 && block.len <= 4096, "{block:?}");
            assert!(
                block.taken > block.len && block.taken < text.len(),
                "{block:?}"
            );
            // The same state is used again.
            let mut again = [0; 4096];
            assert_eq!(filler.fill(&text, &mut again), Some(block));
            assert_eq!(again, buffer);
            let all = filler.fill(&text[..100], &mut buffer).unwrap();
            assert_eq!(all.taken, 100);
            assert_eq!(filler.fill(&text, &mut []), None);
            assert_eq!(filler.fill(&[], &mut buffer), None);
        }
    }
}
