//! System calls that the threads of another process make, as a debugger has them make it.

use std::{ffi::c_long, fs, io};

use nix::{
    errno::Errno,
    libc::user_regs_struct,
    sys::{
        ptrace::{self, Options},
        signal::Signal,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Where texts are put below a thread's stack, beyond what functions use without a frame.
const SCRATCH: u64 = 8192;

/// The instruction `int $0x80`, by which programs of 32 bits make system calls.
const INT_80: [u8; 2] = [0xcd, 0x80];

/// The room for each argument there.
const ROOM: u64 = 256;

/// An argument of a system call.
#[derive(Debug, Clone, Copy)]
pub enum Argument<'a> {
    /// A number.
    Number(i64),
    /// The address of a text that ends with a zero.
    Text(&'a str),
    /// The address of bytes that zeros follow.
    Bytes(&'a [u8]),
    /// The address of zeros.
    Zeros,
}

/// The threads of a process.
///
/// # Panics
/// If it has ended.
pub fn threads_of(process: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names
        .map(|name| name.to_str().unwrap().parse().unwrap())
        .collect()
}

/// A thread that is stopped. It goes on when this is dropped.
pub struct Stopped {
    thread: Pid,
    registers: user_regs_struct,
}

impl Stopped {
    /// Stops a thread, which must be waiting in a system call, as those of a daemon at rest do.
    ///
    /// # Panics
    /// If that is not possible.
    pub fn new(thread: i32) -> Self {
        let thread = Pid::from_raw(thread);
        ptrace::seize(thread, Options::PTRACE_O_TRACESYSGOOD).unwrap();
        ptrace::interrupt(thread).unwrap();
        wait(thread);
        let registers = ptrace::getregs(thread).unwrap();
        Self { thread, registers }
    }

    /// Makes the thread make a system call, and returns what it returns.
    ///
    /// # Panics
    /// If the thread ends by that.
    pub fn call(&self, number: c_long, arguments: [Argument<'_>; 6]) -> io::Result<i64> {
        let mut registers = self.registers;
        registers.rip = self.instruction();
        registers.rax = number.cast_unsigned();
        registers.orig_rax = u64::MAX;
        let places = arguments.iter().zip(0..);
        let [rdi, rsi, rdx, r10, r8, r9] = places
            .map(|(argument, index)| self.placed(*argument, index))
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        (registers.rdi, registers.rsi, registers.rdx) = (rdi, rsi, rdx);
        (registers.r10, registers.r8, registers.r9) = (r10, r8, r9);
        ptrace::setregs(self.thread, registers).unwrap();
        for _ in ["entry", "exit"] {
            ptrace::syscall(self.thread, None).unwrap();
            assert!(
                matches!(wait(self.thread), WaitStatus::PtraceSyscall(_)),
                "the thread has not made the call"
            );
        }
        let returned = ptrace::getregs(self.thread).unwrap().rax.cast_signed();
        self.restore();
        match returned {
            -4095..0 => Err(io::Error::from_raw_os_error(-returned as i32)),
            value => Ok(value),
        }
    }

    /// Makes the thread make a system call as programs of 32 bits do, and returns what it returns.
    ///
    /// # Errors
    /// How the process was stopped or ended instead.
    ///
    /// # Panics
    /// If the thread cannot be made to try.
    pub fn call_by_int_80(
        &self,
        number: c_long,
        [first, second]: [i64; 2],
    ) -> Result<i64, WaitStatus> {
        let mut registers = self.registers;
        registers.rip = self.instruction();
        let place = registers.rip as ptrace::AddressType;
        let before = ptrace::read(self.thread, place).unwrap();
        let mut changed = before.to_ne_bytes();
        changed[..INT_80.len()].copy_from_slice(&INT_80);
        ptrace::write(self.thread, place, c_long::from_ne_bytes(changed)).unwrap();
        registers.rax = number.cast_unsigned();
        registers.orig_rax = u64::MAX;
        (registers.rbx, registers.rcx) = (first.cast_unsigned(), second.cast_unsigned());
        ptrace::setregs(self.thread, registers).unwrap();
        for _ in ["entry", "exit"] {
            ptrace::syscall(self.thread, None).unwrap();
            match status(self.thread) {
                WaitStatus::PtraceSyscall(_) => {}
                other => return Err(other),
            }
        }
        let returned = ptrace::getregs(self.thread).unwrap().rax.cast_signed();
        ptrace::write(self.thread, place, before).unwrap();
        // A filter ends a process only behind the call.
        ptrace::step(self.thread, None).unwrap();
        match status(self.thread) {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            other => return Err(other),
        }
        self.restore();
        Ok(returned)
    }

    /// Brings the thread back to where it was stopped: behind a system call that the kernel begins again.
    fn restore(&self) {
        ptrace::setregs(self.thread, self.registers).unwrap();
        ptrace::interrupt(self.thread).unwrap();
        ptrace::cont(self.thread, None).unwrap();
        wait(self.thread);
    }

    /// The address of an instruction for system calls: the one that the thread has just executed.
    fn instruction(&self) -> u64 {
        let address = self.registers.rip - SYSCALL.len() as u64;
        let word = ptrace::read(self.thread, address as ptrace::AddressType).unwrap();
        assert_eq!(
            word.to_ne_bytes()[..2],
            SYSCALL,
            "the thread is not in a system call"
        );
        address
    }

    /// The address where an argument is put.
    fn place(&self, index: u64) -> u64 {
        (self.registers.rsp - SCRATCH + index * ROOM) & !15
    }

    /// What is now where an argument of the last call was put.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn placed_bytes(&self, index: u64) -> Vec<u8> {
        let places = (self.place(index)..).step_by(8).take(ROOM as usize / 8);
        let words = places.map(|at| ptrace::read(self.thread, at as ptrace::AddressType).unwrap());
        words.flat_map(c_long::to_ne_bytes).collect()
    }

    /// An argument, after its text was put where the thread does not use its stack.
    fn placed(&self, argument: Argument<'_>, index: u64) -> u64 {
        let address = self.place(index);
        let mut bytes = match argument {
            Argument::Number(number) => return number.cast_unsigned(),
            Argument::Text(text) => text.as_bytes().to_vec(),
            Argument::Bytes(bytes) => bytes.to_vec(),
            Argument::Zeros => Vec::new(),
        };
        bytes.resize(ROOM as usize, 0);
        for (word, at) in bytes.chunks_exact(8).zip((address..).step_by(8)) {
            let word = c_long::from_ne_bytes(word.try_into().unwrap());
            ptrace::write(self.thread, at as ptrace::AddressType, word).unwrap();
        }
        address
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.thread, None);
    }
}

/// Waits until a traced thread has stopped.
///
/// # Panics
/// If it has ended.
pub(crate) fn wait(thread: Pid) -> WaitStatus {
    match status(thread) {
        status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => {
            panic!("the thread has ended: {status:?}")
        }
        status => status,
    }
}

/// Waits until a traced thread has stopped or ended.
fn status(thread: Pid) -> WaitStatus {
    loop {
        match waitpid(thread, Some(WaitPidFlag::__WALL)) {
            Err(Errno::EINTR) => {}
            status => return status.unwrap(),
        }
    }
}
