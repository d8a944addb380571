//! The part of io_uring that FUSE needs: one command at a time, submitted and waited for with one
//! system call. Layouts and numbers are those of `linux/io_uring.h`, which is under the MIT licence,
//! too.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

use crate::{checked::checked, mapping::Mapping};

/// `IORING_SETUP_*`. The thread that will use the ring enables it; no other thread may use it then.
/// Completions are posted only while that thread waits for them. Submissions need no indirection,
/// and each has room for 80 bytes of command.
const SETUP: u32 = R_DISABLED | SQE128 | SINGLE_ISSUER | DEFER_TASKRUN | NO_SQARRAY;
const R_DISABLED: u32 = 1 << 6;
const SQE128: u32 = 1 << 10;
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFER_TASKRUN: u32 = 1 << 13;
const NO_SQARRAY: u32 = 1 << 16;

/// `IORING_OFF_SQ_RING`, which holds the completions as well.
const RINGS: i64 = 0;

/// `IORING_OFF_SQES`.
const SUBMISSIONS: i64 = 0x1000_0000;

/// `IORING_REGISTER_ENABLE_RINGS`.
const ENABLE_RINGS: u32 = 12;

/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;

/// `IORING_OP_URING_CMD`.
const URING_CMD: u8 = 46;

/// `struct io_sqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user_address: u64,
}

/// `struct io_cqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    completions: u32,
    flags: u32,
    reserved: u32,
    user_address: u64,
}

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Parameters {
    submission_entries: u32,
    completion_entries: u32,
    flags: u32,
    thread_cpu: u32,
    thread_idle: u32,
    features: u32,
    workers: u32,
    reserved: [u32; 3],
    submissions: SubmissionOffsets,
    completions: CompletionOffsets,
}

const _: () = assert!(size_of::<Parameters>() == 120);

/// `struct io_uring_sqe` with `IORING_SETUP_SQE128`, in its form for a command.
#[repr(C)]
struct Submission {
    opcode: u8,
    flags: u8,
    priority: u16,
    file: RawFd,
    command: u32,
    padding: u32,
    address: u64,
    len: u32,
    command_flags: u32,
    user_data: u64,
    buffer: u16,
    personality: u16,
    file_index: u32,
    arguments: [u8; 80],
}

const _: () = assert!(size_of::<Submission>() == 128);

/// `struct io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

const _: () = assert!(size_of::<Completion>() == 16);

/// A command for a file. The command defines the meaning of the address and the length.
pub(crate) struct Command {
    pub(crate) file: RawFd,
    pub(crate) number: u32,
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) arguments: [u8; 80],
}

/// A ring with room for one command.
pub(crate) struct Ring {
    file: OwnedFd,
    rings: Mapping,
    submissions: Mapping,
    parameters: Parameters,
}

impl Ring {
    /// A ring that is not enabled yet.
    ///
    /// # Errors
    /// `ENOSYS` or `EINVAL` before Linux 6.6, `EPERM` where io_uring is switched off, `EMFILE`,
    /// `ENOMEM`.
    pub(crate) fn new() -> io::Result<Self> {
        let mut parameters = Parameters {
            flags: SETUP,
            ..Default::default()
        };
        // SAFETY: the kernel reads and writes one `io_uring_params`, and keeps no pointer.
        let file =
            unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, ptr::from_mut(&mut parameters)) };
        let file = checked(file)?;
        // SAFETY: the descriptor, which is an int and not -1, was just made for us, so nobody else closes it.
        let file = unsafe { OwnedFd::from_raw_fd(file as RawFd) };
        let completions = parameters.completion_entries as usize * size_of::<Completion>();
        let rings = parameters.completions.completions as usize + completions;
        Ok(Self {
            rings: Mapping::of(&file, rings, RINGS)?,
            submissions: Mapping::of(&file, size_of::<Submission>(), SUBMISSIONS)?,
            file,
            parameters,
        })
    }

    /// Makes the calling thread the only one that may use the ring.
    ///
    /// # Errors
    /// `EBADFD` if it is already enabled.
    pub(crate) fn enable(&self) -> io::Result<()> {
        let (file, none) = (self.file.as_raw_fd(), ptr::null::<()>());
        // SAFETY: the operation takes no argument and touches no memory of ours.
        let result =
            unsafe { libc::syscall(libc::SYS_io_uring_register, file, ENABLE_RINGS, none, 0) };
        checked(result).map(drop)
    }

    /// Stores a command, which the next [`Self::enter`] submits. The result of the previous one
    /// must have been taken.
    ///
    /// # Safety
    /// Until its result is there, the kernel may access all memory that the command refers to.
    pub(crate) unsafe fn push(&mut self, command: &Command) {
        let submission = Submission {
            opcode: URING_CMD,
            flags: 0,
            priority: 0,
            file: command.file,
            command: command.number,
            padding: 0,
            address: command.address,
            len: command.len,
            command_flags: 0,
            user_data: 0,
            buffer: 0,
            personality: 0,
            file_index: 0,
            arguments: command.arguments,
        };
        let slot = self.submissions.at(0, size_of::<Submission>()).cast();
        // SAFETY: the slot has the size and, at the start of a page, the alignment. The kernel only
        // reads it in `enter`, on this thread, once the tail says that it is filled.
        unsafe { slot.write(submission) };
        let tail = self.rings.atomic(self.parameters.submissions.tail);
        tail.store(tail.load(Relaxed).wrapping_add(1), Release);
    }

    /// Submits the pushed command unless it was submitted already. If `wait`, waits for its result;
    /// a signal ends the wait.
    ///
    /// # Errors
    /// As `io_uring_enter`, except those that only ask to try again.
    pub(crate) fn enter(&mut self, wait: bool) -> io::Result<()> {
        let offsets = &self.parameters.submissions;
        let tail = self.rings.atomic(offsets.tail).load(Relaxed);
        let head = self.rings.atomic(offsets.head).load(Acquire);
        // SAFETY: the kernel reads the submission and writes completions, both in memory that is
        // mapped for that. The caller of `push` guarantees the memory that the command refers to.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.file.as_raw_fd(),
                tail.wrapping_sub(head),
                u32::from(wait),
                GETEVENTS,
                ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        match checked(result).map(drop) {
            // EAGAIN: temporarily out of memory.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {
                Ok(())
            }
            entered => entered,
        }
    }

    /// The result of the command, if it is there and was not taken yet.
    pub(crate) fn result(&self) -> Option<i32> {
        let offsets = &self.parameters.completions;
        let head = self.rings.atomic(offsets.head).load(Relaxed);
        if head == self.rings.atomic(offsets.tail).load(Acquire) {
            return None;
        }
        let index = head & (self.parameters.completion_entries - 1);
        let offset = offsets.completions as usize + index as usize * size_of::<Completion>();
        let slot = self.rings.at(offset, size_of::<Completion>()).cast();
        assert!(slot.is_aligned());
        // SAFETY: the slot is aligned, any bytes are a valid `Completion`, and the kernel filled it
        // before it moved the tail. It fills it again only after the head has moved.
        let completion: Completion = unsafe { slot.read() };
        Some(completion.result)
    }

    /// Takes the result that [`Self::result`] returns.
    pub(crate) fn take_result(&mut self) -> Option<i32> {
        let result = self.result()?;
        let head = self.rings.atomic(self.parameters.completions.head);
        head.store(head.load(Relaxed).wrapping_add(1), Release);
        Some(result)
    }
}
