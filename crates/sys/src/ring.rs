//! The part of io_uring that FUSE needs: one command at a time, submitted and waited for with one
//! system call.

use std::{
    io,
    os::fd::{OwnedFd, RawFd},
    ptr,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

use rustix::{
    io::Errno,
    io_uring::{
        IORING_OFF_SQ_RING, IORING_OFF_SQES, IoringEnterFlags, IoringOp, IoringRegisterOp,
        IoringSetupFlags, io_uring_cqe, io_uring_enter, io_uring_params, io_uring_register,
        io_uring_setup,
    },
};

use crate::mapping::Mapping;

/// The thread that will use the ring enables it; no other thread may use it then. Completions are posted only while
/// that thread waits for them. Submissions need no indirection, and each has room for 80 bytes of command.
const SETUP: IoringSetupFlags = IoringSetupFlags::R_DISABLED
    .union(IoringSetupFlags::SQE128)
    .union(IoringSetupFlags::SINGLE_ISSUER)
    .union(IoringSetupFlags::DEFER_TASKRUN)
    .union(IoringSetupFlags::NO_SQARRAY);

/// A command for a file: `struct io_uring_sqe` with `IORING_SETUP_SQE128`. The command defines the meaning of the address
/// and the length. The layout is that of `linux/io_uring.h`, which is under the MIT licence, too.
#[repr(C)]
struct Submission {
    opcode: u8,
    unused: [u8; 3],
    file: RawFd,
    command: u32,
    padding: u32,
    address: u64,
    len: u32,
    unused_too: [u32; 5],
    arguments: [u8; 80],
}

const _: () = assert!(size_of::<Submission>() == 128);

/// A ring with room for one command.
pub(crate) struct Ring {
    file: OwnedFd,
    rings: Mapping,
    submissions: Mapping,
    offsets: Offsets,
}

/// Where the heads and tails of the rings and the completions are in the mapping, and how many completions there is room for.
struct Offsets {
    submissions_head: u32,
    submissions_tail: u32,
    completions_head: u32,
    completions_tail: u32,
    completions: u32,
    room: u32,
}

impl Ring {
    /// A ring that is not enabled yet.
    ///
    /// # Errors
    /// `ENOSYS` or `EINVAL` before Linux 6.6, `EPERM` where io_uring is switched off, `EMFILE`,
    /// `ENOMEM`.
    pub(crate) fn new() -> io::Result<Self> {
        let mut parameters = io_uring_params::default();
        parameters.flags = SETUP;
        // SAFETY: no descriptor is among the parameters.
        let file = unsafe { io_uring_setup(1, &mut parameters) }?;
        let completions = parameters.cq_entries as usize * size_of::<io_uring_cqe>();
        let rings = parameters.cq_off.cqes as usize + completions;
        Ok(Self {
            rings: Mapping::of(&file, rings, IORING_OFF_SQ_RING)?,
            submissions: Mapping::of(&file, size_of::<Submission>(), IORING_OFF_SQES)?,
            file,
            offsets: Offsets {
                submissions_head: parameters.sq_off.head,
                submissions_tail: parameters.sq_off.tail,
                completions_head: parameters.cq_off.head,
                completions_tail: parameters.cq_off.tail,
                completions: parameters.cq_off.cqes,
                room: parameters.cq_entries,
            },
        })
    }

    /// Makes the calling thread the only one that may use the ring.
    ///
    /// # Errors
    /// `EBADFD` if it is already enabled.
    pub(crate) fn enable(&self) -> io::Result<()> {
        let operation = IoringRegisterOp::RegisterEnableRings;
        // SAFETY: the operation takes no argument and touches no memory of ours.
        unsafe { io_uring_register(&self.file, operation, ptr::null(), 0) }?;
        Ok(())
    }

    /// Stores a command, which the next [`Self::enter`] submits. The result of the previous one
    /// must have been taken.
    ///
    /// # Safety
    /// Until its result is there, the kernel may access all memory that the command refers to.
    pub(crate) unsafe fn push(
        &mut self,
        file: RawFd,
        command: u32,
        address: u64,
        len: u32,
        arguments: [u8; 80],
    ) {
        let submission = Submission {
            opcode: IoringOp::UringCmd as u8,
            unused: [0; 3],
            file,
            command,
            padding: 0,
            address,
            len,
            unused_too: [0; 5],
            arguments,
        };
        let slot = self.submissions.at(0, size_of::<Submission>()).cast();
        // SAFETY: the slot has the size and, at the start of a page, the alignment. The kernel only
        // reads it in `enter`, on this thread, once the tail says that it is filled.
        unsafe { slot.write(submission) };
        let tail = self.rings.atomic(self.offsets.submissions_tail);
        tail.store(tail.load(Relaxed).wrapping_add(1), Release);
    }

    /// Submits the pushed command unless it was submitted already. If `wait`, waits for its result;
    /// a signal ends the wait.
    ///
    /// # Errors
    /// As `io_uring_enter`, except those that only ask to try again.
    pub(crate) fn enter(&mut self, wait: bool) -> io::Result<()> {
        let offsets = &self.offsets;
        let tail = self.rings.atomic(offsets.submissions_tail).load(Relaxed);
        let head = self.rings.atomic(offsets.submissions_head).load(Acquire);
        // SAFETY: the kernel reads the submission and writes completions, both in memory that is
        // mapped for that. The caller of `push` guarantees the memory that the command refers to.
        let entered = unsafe {
            let (count, least) = (tail.wrapping_sub(head), u32::from(wait));
            io_uring_enter(&self.file, count, least, IoringEnterFlags::GETEVENTS)
        };
        match entered {
            // AGAIN: temporarily out of memory.
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The result of the command, if it is there and was not taken yet.
    pub(crate) fn result(&self) -> Option<i32> {
        let offsets = &self.offsets;
        let head = self.rings.atomic(offsets.completions_head).load(Relaxed);
        if head == self.rings.atomic(offsets.completions_tail).load(Acquire) {
            return None;
        }
        let index = head & (offsets.room - 1);
        let offset = offsets.completions as usize + index as usize * size_of::<io_uring_cqe>();
        let slot = self.rings.at(offset, size_of::<io_uring_cqe>()).cast();
        assert!(slot.is_aligned());
        // SAFETY: the slot is aligned, and the kernel filled it before it moved the tail. It fills it again only after the
        // head has moved.
        let completion: &io_uring_cqe = unsafe { slot.as_ref() };
        Some(completion.res)
    }

    /// Takes the result that [`Self::result`] returns.
    pub(crate) fn take_result(&mut self) -> Option<i32> {
        let result = self.result()?;
        let head = self.rings.atomic(self.offsets.completions_head);
        head.store(head.load(Relaxed).wrapping_add(1), Release);
        Some(result)
    }
}
