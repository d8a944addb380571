//! Kernels that have less than this one, simulated: the tracer of a daemon answers its first system calls as they would.

use std::process::Child;

use nix::{
    errno::Errno,
    sys::{
        ptrace::{self, Options},
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use crate::thread::wait;

/// What a kernel has.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// The version of Landlock's interface; `None` without Landlock.
    pub landlock: Option<u8>,
    /// Whether it has seccomp.
    pub seccomp: bool,
}

/// `LANDLOCK_CREATE_RULESET_VERSION`.
const VERSION: u64 = 1;

impl Kernel {
    /// Lets a process go on that waits stopped, below this kernel, until it has more than one thread.
    ///
    /// # Panics
    /// If it ends before.
    pub fn run(self, process: &Child) {
        let process = Pid::from_raw(process.id().cast_signed());
        // It stops itself.
        while !matches!(
            waitpid(process, Some(WaitPidFlag::WUNTRACED)).unwrap(),
            WaitStatus::Stopped(..)
        ) {}
        ptrace::seize(process, Options::PTRACE_O_TRACESYSGOOD).unwrap();
        kill(process, Signal::SIGCONT).unwrap();
        let mut answer = None;
        loop {
            let mut signal = None;
            match wait(process) {
                WaitStatus::PtraceSyscall(_) => {
                    let mut registers = ptrace::getregs(process).unwrap();
                    match answer.take() {
                        // At the end of a call.
                        Some(Some(value)) => {
                            registers.rax = value;
                            ptrace::setregs(process, registers).unwrap();
                        }
                        Some(None) => {}
                        // At its beginning.
                        None => {
                            let number = registers.orig_rax.cast_signed();
                            let first = [registers.rdi, registers.rsi, registers.rdx];
                            let changed = self.answer(number, first);
                            if changed.is_some() {
                                registers.orig_rax = u64::MAX;
                                ptrace::setregs(process, registers).unwrap();
                            }
                            if number == libc::SYS_clone3 || is_thread(number, first[0]) {
                                break;
                            }
                            answer = Some(changed);
                        }
                    }
                }
                WaitStatus::Stopped(_, stopped) if stopped != Signal::SIGSTOP => {
                    signal = Some(stopped);
                }
                _ => {}
            }
            ptrace::syscall(process, signal).unwrap();
        }
        ptrace::detach(process, None).unwrap();
    }

    /// What a call returns there, if not what it does here.
    fn answer(self, number: i64, [first, _, flags]: [u64; 3]) -> Option<u64> {
        let error = |errno: Errno| Some((-i64::from(errno as i32)).cast_unsigned());
        match number {
            libc::SYS_landlock_create_ruleset => match self.landlock {
                None => error(Errno::ENOSYS),
                Some(version) if flags == VERSION => Some(version.into()),
                // The errata, which older kernels do not tell.
                Some(_) if flags != 0 => error(Errno::EINVAL),
                Some(_) => None,
            },
            libc::SYS_seccomp if !self.seccomp => error(Errno::ENOSYS),
            libc::SYS_prctl if !self.seccomp && first == libc::PR_SET_SECCOMP as u64 => {
                error(Errno::EINVAL)
            }
            _ => None,
        }
    }
}

fn is_thread(number: i64, flags: u64) -> bool {
    number == libc::SYS_clone && flags & libc::CLONE_THREAD as u64 != 0
}
