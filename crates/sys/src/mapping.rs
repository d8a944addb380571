use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    ptr::{self, NonNull},
    sync::atomic::AtomicU32,
};

/// Memory that is shared with the kernel, initially zero, unmapped when dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the process, not to the thread that mapped it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `len` bytes of anonymous memory, allocated as it is touched.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// `len` bytes of `file` from `offset` on.
    ///
    /// # Errors
    /// As `mmap`.
    pub(crate) fn of(file: impl AsFd, len: usize, offset: u64) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::map(len, flags, file.as_fd().as_raw_fd(), offset as i64)
    }

    fn map(len: usize, flags: i32, file: i32, offset: i64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: without MAP_FIXED the kernel chooses unused addresses.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, file, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(at) if start != libc::MAP_FAILED => Ok(Self { start: at, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The address of `size` bytes from `offset` on.
    ///
    /// # Panics
    /// If they are not all in the mapping.
    pub(crate) fn at(&self, offset: usize, size: usize) -> NonNull<u8> {
        assert!(offset.checked_add(size).is_some_and(|end| end <= self.len));
        // SAFETY: the offset is within the mapping or at its end.
        unsafe { self.start.add(offset) }
    }

    /// The number at `offset`, which both the kernel and we change.
    ///
    /// # Panics
    /// If it is not in the mapping, or not aligned.
    pub(crate) fn atomic(&self, offset: u32) -> &AtomicU32 {
        let number = self.at(offset as usize, size_of::<u32>()).cast::<u32>();
        assert!(number.is_aligned());
        // SAFETY: it is aligned, and lies in memory that is initialised and stays mapped for as
        // long as `self` is borrowed. In this process it is only accessed here, as atomic.
        unsafe { AtomicU32::from_ptr(number.as_ptr()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and every pointer into it borrows `self` or is
        // the owner's responsibility.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
