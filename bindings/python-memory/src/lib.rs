//! `bytes` of Python's whose memory is made by several threads. The only unsafe code of the Python package: each block says
//! why it is sound.

use std::{
    ffi::c_char,
    mem::MaybeUninit,
    ptr, slice,
    sync::atomic::{AtomicUsize, Ordering},
};

use pyo3::{Bound, PyResult, Python, exceptions::PyMemoryError, ffi, types::PyBytes};

/// New `bytes` of `len` bytes. `fill` gets their memory in order, in pieces of `piece` bytes (the last may be shorter), and must
/// have [zeroed](NewPiece::zeroed) all of them, by whichever threads, when it returns without an error.
///
/// The kernel makes memory when it is first written, which takes longer than reading or hashing as much.
///
/// # Errors
/// That of `fill`, and `MemoryError`.
///
/// # Panics
/// If `piece` is 0, or `fill` left out a piece.
pub fn bytes_in_pieces<'py>(
    py: Python<'py>,
    len: usize,
    piece: usize,
    fill: impl FnOnce(&mut NewPieces<'_>) -> PyResult<()>,
) -> PyResult<Bound<'py, PyBytes>> {
    let size = isize::try_from(len).map_err(|_| PyMemoryError::new_err(()))?;
    // SAFETY: without content to copy, the pointer is null. The function returns a new reference, or null and an exception.
    let bytes = unsafe {
        let bytes = ffi::PyBytes_FromStringAndSize(ptr::null::<c_char>(), size);
        Bound::from_owned_ptr_or_err(py, bytes)
    }?;
    // SAFETY: the memory is that of a live object of type `bytes` with this length. Unless it is empty, nobody else has a
    // reference to the object, as it is new. `MaybeUninit` allows memory that was not written yet.
    let memory = unsafe {
        let start = ffi::PyBytes_AsString(bytes.as_ptr());
        slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), len)
    };
    let zeroed = AtomicUsize::new(0);
    fill(&mut NewPieces {
        pieces: memory.chunks_mut(piece),
        zeroed: &zeroed,
    })?;
    assert_eq!(zeroed.into_inner(), len, "a piece was left out");
    Ok(bytes.cast_into::<PyBytes>()?)
}

/// The pieces of new `bytes`, in order.
#[derive(Debug)]
pub struct NewPieces<'a> {
    pieces: slice::ChunksMut<'a, MaybeUninit<u8>>,
    zeroed: &'a AtomicUsize,
}

impl<'a> Iterator for NewPieces<'a> {
    type Item = NewPiece<'a>;

    fn next(&mut self) -> Option<NewPiece<'a>> {
        Some(NewPiece {
            memory: self.pieces.next()?,
            zeroed: self.zeroed,
        })
    }
}

/// A piece of new `bytes`, of which the memory is not made yet.
#[derive(Debug)]
pub struct NewPiece<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    /// How many bytes of all pieces were zeroed. Each piece is counted once, as that takes it.
    zeroed: &'a AtomicUsize,
}

impl<'a> NewPiece<'a> {
    /// How many bytes it has.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Its memory, which is made now.
    pub fn zeroed(self) -> &'a mut [u8] {
        self.memory.fill(MaybeUninit::new(0));
        self.zeroed.fetch_add(self.memory.len(), Ordering::Relaxed);
        // SAFETY: `MaybeUninit<u8>` is laid out as `u8`, and all of it was just written.
        unsafe { &mut *(ptr::from_mut(self.memory) as *mut [u8]) }
    }
}
