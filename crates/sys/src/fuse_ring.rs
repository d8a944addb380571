//! FUSE over io_uring, from `linux/fuse.h`: a ring that carries one request at a time. The types
//! say who owns the buffers, and so what a thread can do: the kernel in a [`WaitingFuseRing`], we in
//! a [`FuseRingRequest`].

use std::{
    io,
    mem::{ManuallyDrop, offset_of},
    os::fd::{AsFd, AsRawFd},
    ptr::NonNull,
    slice,
};

use crate::{mapping::Mapping, ring::Ring};

/// `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;

/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;

/// `FUSE_URING_IN_OUT_HEADER_SZ`, `FUSE_URING_OP_IN_OUT_SZ`.
const HEADER_LEN: usize = 128;

/// `struct fuse_uring_req_header` with `struct fuse_uring_ent_in_out` at its end, and behind it the
/// vector that registers the buffers.
#[repr(C)]
struct Headers {
    in_out: [u8; HEADER_LEN],
    operation: [u8; HEADER_LEN],
    flags: u64,
    commit_id: u64,
    payload_len: u32,
    padding: u32,
    reserved: u64,
    vector: [libc::iovec; 2],
}

/// The length of `struct fuse_uring_req_header`.
const HEADERS_LEN: usize = 288;
const _: () = assert!(offset_of!(Headers, vector) == HEADERS_LEN);

/// A connection to the kernel for one of its queues, not yet in use. `D` is the FUSE device.
pub struct FuseRing<D> {
    device: D,
    queue: u16,
    ring: Ring,
    buffers: Buffers,
}

/// A ring that waits for a request.
pub struct WaitingFuseRing<D>(FuseRing<D>);

/// A ring with a request that has not been answered yet.
pub struct FuseRingRequest<D>(FuseRing<D>);

/// A ring of the thread that makes it, which can take the place of another one.
pub struct SpareRing(Ring);

impl SpareRing {
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub fn new() -> io::Result<Self> {
        let ring = Ring::new()?;
        ring.enable()?;
        Ok(Self(ring))
    }
}

impl<D: AsFd> FuseRing<D> {
    /// A ring for `queue`, the number of a processor, with room for `payload_len` bytes.
    ///
    /// # Errors
    /// `ENOSYS` or `EINVAL` before Linux 6.6, `EPERM` where io_uring is switched off, `EMFILE`,
    /// `ENOMEM`.
    pub fn new(device: D, queue: u16, payload_len: usize) -> io::Result<Self> {
        Ok(Self {
            device,
            queue,
            ring: Ring::new()?,
            buffers: Buffers::new(payload_len)?,
        })
    }

    /// Asks the kernel for requests. The calling thread must be the one that waits for them. The
    /// kernel sends none before each of its queues has a ring.
    ///
    /// # Errors
    /// Those of the kernel, which then uses none of the rings: `EOPNOTSUPP` where they are switched
    /// off, `EINVAL` for too small a buffer or a queue that does not exist.
    pub fn register(mut self) -> io::Result<WaitingFuseRing<D>> {
        self.ring.enable()?;
        self.buffers.prepare();
        let vector = self.buffers.headers.as_ptr();
        // SAFETY: `headers` points to one.
        let vector = unsafe { &raw const (*vector).vector };
        self.push(REGISTER, 0, vector as u64, 2);
        self.ring.enter(false)?;
        match self.ring.result() {
            Some(error) if error < 0 => {
                self.take_result();
                Err(io::Error::from_raw_os_error(-error))
            }
            _ => Ok(WaitingFuseRing(self)),
        }
    }

    /// Gives the buffers to the kernel.
    fn push(&mut self, number: u32, commit_id: u64, address: u64, len: u32) {
        // `struct fuse_uring_cmd_req`: flags, id, queue.
        let mut arguments = [0; 80];
        arguments[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        arguments[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        let file = self.device.as_fd().as_raw_fd();
        self.buffers.with_kernel = true;
        // SAFETY: the kernel accesses the buffers. Nobody else does until the result was taken; if
        // it never is, the buffers are leaked.
        unsafe { self.ring.push(file, number, address, len, arguments) };
    }

    /// The result of the last command. Taking it gives the buffers back to us.
    fn take_result(&mut self) -> Option<i32> {
        let result = self.ring.take_result()?;
        self.buffers.with_kernel = false;
        Some(result)
    }

    /// Submits a pushed command, and waits for a request.
    fn wait(mut self) -> io::Result<Option<FuseRingRequest<D>>> {
        loop {
            match self.take_result() {
                None => self.ring.enter(true)?,
                Some(0..) => return Ok(Some(FuseRingRequest(self))),
                Some(error) => {
                    return match -error {
                        libc::ENOTCONN | libc::ECONNABORTED => Ok(None),
                        error => Err(io::Error::from_raw_os_error(error)),
                    };
                }
            }
        }
    }
}

impl<D: AsFd> WaitingFuseRing<D> {
    /// Waits for a request; `None` at the end of the mount.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(self) -> io::Result<Option<FuseRingRequest<D>>> {
        self.0.wait()
    }
}

impl<D: AsFd> FuseRingRequest<D> {
    /// The bytes that begin with `struct fuse_in_header`.
    pub fn header(&self) -> &[u8; HEADER_LEN] {
        &self.headers().in_out
    }

    /// The bytes that begin with the operation's own structure, if it has one.
    pub fn operation(&self) -> &[u8; HEADER_LEN] {
        &self.headers().operation
    }

    /// All other arguments, one after the other.
    pub fn payload(&self) -> &[u8] {
        let buffers = &self.0.buffers;
        let len = (self.headers().payload_len as usize).min(buffers.payload_len);
        // SAFETY: that many bytes are there, in memory that was mapped as zeros, and the kernel
        // changes none of them while the buffers are ours, as they are in this type.
        unsafe { slice::from_raw_parts(buffers.payload.as_ptr(), len) }
    }

    /// Maximum length of an answer's data, in bytes.
    pub fn room(&self) -> usize {
        self.0.buffers.payload_len
    }

    /// The number of the queue that it came from, which is a processor's.
    pub fn queue(&self) -> u16 {
        self.0.queue
    }

    /// Goes on with `ring`, whose thread from now on answers in place of the one that waited for the
    /// request.
    #[must_use]
    pub fn continue_on(mut self, ring: SpareRing) -> Self {
        // The kernel has done with the command on the old ring; the next one may come on any.
        self.0.ring = ring.0;
        self
    }

    /// Answers with `header`, a `struct fuse_out_header`, and `data`, and waits for the next
    /// request; `None` at the end of the mount.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// If `data` is longer than the payload buffer.
    pub fn answer(mut self, header: &[u8; 16], data: &[u8]) -> io::Result<Option<Self>> {
        assert!(data.len() <= self.room());
        let payload = self.0.buffers.payload.as_ptr();
        // SAFETY: there is room for `data`, which lies elsewhere: the payload is only lent to those
        // that borrow `self`. The kernel does not use it, as the buffers are ours in this type.
        unsafe { payload.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
        let headers = self.headers_mut();
        headers.in_out[..header.len()].copy_from_slice(header);
        headers.payload_len = data.len() as u32;
        let commit_id = headers.commit_id;
        self.0.push(COMMIT_AND_FETCH, commit_id, 0, 0);
        self.0.wait()
    }

    fn headers(&self) -> &Headers {
        // SAFETY: `headers` points to one, which the kernel does not change while the buffers are
        // ours, as they are in this type. All that can be written there are numbers.
        unsafe { self.0.buffers.headers.as_ref() }
    }

    fn headers_mut(&mut self) -> &mut Headers {
        // SAFETY: as in `headers`, and `self` is borrowed exclusively.
        unsafe { self.0.buffers.headers.as_mut() }
    }
}

/// The buffers of a request and its answer: the payload, followed by the headers.
struct Buffers {
    mapping: ManuallyDrop<Mapping>,
    payload: NonNull<u8>,
    payload_len: usize,
    headers: NonNull<Headers>,
    /// Whether the kernel may access them at any time.
    with_kernel: bool,
}

// SAFETY: the pointers are into the mapping, which goes with them and can be sent.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new(payload_len: usize) -> io::Result<Self> {
        let too_long = || io::Error::from_raw_os_error(libc::EINVAL);
        let aligned = payload_len.checked_next_multiple_of(align_of::<Headers>());
        let headers = aligned.ok_or_else(too_long)?;
        let len = headers.checked_add(size_of::<Headers>());
        let mapping = Mapping::anonymous(len.ok_or_else(too_long)?)?;
        Ok(Self {
            payload: mapping.at(0, payload_len),
            payload_len,
            headers: mapping.at(headers, size_of::<Headers>()).cast(),
            mapping: ManuallyDrop::new(mapping),
            with_kernel: false,
        })
    }

    /// Writes the addresses of the buffers into the vector.
    fn prepare(&mut self) {
        let part = |base: NonNull<u8>, iov_len| libc::iovec {
            iov_base: base.as_ptr().cast(),
            iov_len,
        };
        let vector = [
            part(self.headers.cast(), HEADERS_LEN),
            part(self.payload, self.payload_len),
        ];
        // SAFETY: `headers` points to one, and the kernel has not got it yet: this comes before the
        // first command.
        unsafe { self.headers.as_mut() }.vector = vector;
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // Memory that the kernel may still write to must not be reused.
        if !self.with_kernel {
            // SAFETY: this is the only place that drops it, and the last one to use it.
            unsafe { ManuallyDrop::drop(&mut self.mapping) };
        }
    }
}
