//! The system calls that daemons make. What is not listed does not exist for them.

use libc::{
    AF_INET, AF_INET6, AF_UNIX, CLOCK_TAI, CLONE_FS, CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET,
    CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, CLONE_THREAD, F_DUPFD, F_DUPFD_CLOEXEC,
    F_GETFD, F_GETFL, F_GETLEASE, F_RDLCK, F_SETFD, F_SETFL, F_SETLEASE, F_UNLCK, F_WRLCK,
    FUTEX_CLOCK_REALTIME, FUTEX_CMP_REQUEUE, FUTEX_PRIVATE_FLAG, FUTEX_REQUEUE, FUTEX_WAIT,
    FUTEX_WAIT_BITSET, FUTEX_WAKE, FUTEX_WAKE_BITSET, FUTEX_WAKE_OP, IPPROTO_TCP, MADV_DODUMP,
    MADV_DONTDUMP, MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, O_ASYNC, PR_GET_NAME,
    PR_GET_SECUREBITS, PR_SET_NAME, PR_SET_SECUREBITS, PROT_EXEC, SIGURG, SOCK_SEQPACKET,
    SOCK_STREAM, c_int,
};

use crate::{
    Kind,
    arguments::{
        Arguments::{self, Free, Left, Only},
        Case,
        Condition::{Bits, Is, Null, OtherId, OwnId, UpTo},
        Left::{Addresses, Attributes, Capabilities, Locked, LookedAt, Opened, Rings, Users},
    },
    filter::Needs,
};

/// The numbers of system calls, and two that libc does not name everywhere.
#[allow(non_upper_case_globals)]
mod numbers {
    pub(super) use libc::*;

    pub(super) const SYS_cachestat: i64 = 451;
    pub(super) const SYS_fchmodat2: i64 = 452;
}

/// A system call, as some daemons make it. Of several with the same number each allows what it says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// Its name in libc.
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    pub(crate) by: By,
    pub(crate) arguments: Arguments,
}

/// Which daemons make a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By {
    /// Each, for its threads, memory, time and files.
    Every,
    /// A bridge, for its users.
    Bridge,
    /// An export, for a Unix socket that exists.
    Export,
    /// Whoever asks servers.
    Network,
    /// Whoever has `io_uring`.
    IoUring,
    /// An image whose files are kept in memory.
    Resident,
    /// An image that the kernel reads itself: its status is asked for at a socket.
    Native,
}

impl By {
    /// Whether a daemon with these needs is one of them.
    pub(crate) fn includes(self, needs: Needs) -> bool {
        match self {
            Self::Every => true,
            Self::Bridge => needs.kind == Kind::Bridge,
            Self::Export => needs.kind == Kind::Export,
            Self::Network => needs.network,
            Self::IoUring => needs.io_uring,
            Self::Resident => needs.resident,
            Self::Native => needs.native,
        }
    }
}

/// The table of calls: none is listed without what its arguments may be.
macro_rules! calls {
    ($($by:ident { $($name:ident: $arguments:expr,)* })*) => {
        &[$($(Call {
            name: stringify!($name),
            number: numbers::$name,
            by: By::$by,
            arguments: $arguments,
        },)*)*]
    };
}

/// The operations of `ioctl` that daemons use.
const IOCTLS: &[c_int] = &[
    // FUSE_DEV_IOC_CLONE, FUSE_DEV_IOC_BACKING_OPEN, FUSE_DEV_IOC_BACKING_CLOSE
    0x8004_e500_u32.cast_signed(),
    0x4010_e501,
    0x4004_e502,
    // FS_IOC_MEASURE_VERITY
    0xc004_6686_u32.cast_signed(),
    // FIONBIO
    0x5421,
    // TCGETS, by which a terminal is known
    0x5401,
];

/// `PR_SET_IO_FLUSHER`; `PR_SET_VMA`, by which C libraries name memory; `PR_GET_AUXV`.
const PR_SET_IO_FLUSHER: c_int = 57;
const PR_SET_VMA: c_int = 0x5356_4d41;
const PR_GET_AUXV: c_int = 0x4155_5856;

/// The operations of `prctl` that daemons use.
const PRCTLS: &[c_int] = &[
    PR_GET_SECUREBITS,
    PR_SET_NAME,
    PR_GET_NAME,
    PR_SET_IO_FLUSHER,
    PR_SET_VMA,
    PR_GET_AUXV,
];

/// Threads, and no processes; in no other namespace.
const THREAD: Arguments = Only(&[&[Bits(
    0,
    CLONE_THREAD
        | CLONE_NEWCGROUP
        | CLONE_NEWIPC
        | CLONE_NEWNET
        | CLONE_NEWNS
        | CLONE_NEWPID
        | CLONE_NEWUSER
        | CLONE_NEWUTS,
    &[CLONE_THREAD],
)]]);

/// Of this process. 0 is not: for `kill` it is the group, with whoever has started the daemon.
const OWN_ID: Arguments = Only(&[&[OwnId(0)]]);

/// Of this process or of the calling thread. Limits of others would end them; their processors would slow them down.
const OWN_ID_OR_0: Arguments = Only(&[&[OwnId(0)], &[Is(0, &[0])]]);

/// A clock of the machine, or this process's own: those of others have negative numbers, which their ids are made into.
const CLOCK: Arguments = Only(&[&[UpTo(0, CLOCK_TAI)]]);

/// No memory that programs could be written to.
const NO_PROGRAM: Arguments = Only(&[&[Bits(2, PROT_EXEC, &[0])]]);

/// The thread guards of newer C libraries, which libc does not name.
const MADV_GUARD_INSTALL: c_int = 102;
const MADV_GUARD_REMOVE: c_int = 103;

/// What allocators and threads' stacks take. By MADV_HWPOISON root would take memory from all who share it.
const ADVICE: Arguments = Only(&[
    &[UpTo(2, MADV_DONTNEED)],
    &[Is(
        2,
        &[
            MADV_FREE,
            MADV_HUGEPAGE,
            MADV_NOHUGEPAGE,
            MADV_DONTDUMP,
            MADV_DODUMP,
            MADV_GUARD_INSTALL,
            MADV_GUARD_REMOVE,
        ],
    )],
]);

/// Those without priorities: these raise a thread's whose id is in memory. The most frequent ones first.
const FUTEXES: Arguments = Only(&[&[Bits(
    1,
    !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME),
    &[
        FUTEX_WAIT_BITSET,
        FUTEX_WAKE,
        FUTEX_WAIT,
        FUTEX_REQUEUE,
        FUTEX_CMP_REQUEUE,
        FUTEX_WAKE_OP,
        FUTEX_WAKE_BITSET,
    ],
)]]);

/// `F_SETSIG` (`asm-generic/fcntl.h`).
const F_SETSIG: c_int = 10;

/// The signal that asks for the release of a lease, which comes to this process, and is ignored.
const LEASE_SIGNAL: Case = &[Is(1, &[F_SETSIG]), Is(2, &[SIGURG])];

/// The type of a socket, without its flags.
const SOCKET_TYPE: c_int = 0xf;

/// The system calls of all daemons.
pub(crate) const CALLS: &[Call] = calls! {
    Every {
        // Threads and this process.
        SYS_clone: THREAD,
        SYS_exit: Free,
        SYS_exit_group: Free,
        SYS_futex: FUTEXES,
        SYS_getegid: Free,
        SYS_geteuid: Free,
        SYS_getgid: Free,
        SYS_getgroups: Free,
        SYS_getpid: Free,
        SYS_getppid: Free,
        SYS_getrusage: Free,
        SYS_gettid: Free,
        SYS_getuid: Free,
        SYS_kill: OWN_ID,
        SYS_membarrier: Free,
        SYS_prctl: Only(&[&[Is(0, PRCTLS)]]),
        SYS_prlimit64: OWN_ID_OR_0,
        SYS_restart_syscall: Free,
        SYS_rseq: Free,
        SYS_rt_sigaction: Free,
        SYS_rt_sigpending: Free,
        SYS_rt_sigprocmask: Free,
        SYS_rt_sigreturn: Free,
        SYS_rt_sigsuspend: Free,
        SYS_rt_sigtimedwait: Free,
        SYS_sched_getaffinity: OWN_ID_OR_0,
        SYS_sched_setaffinity: OWN_ID_OR_0,
        SYS_sched_yield: Free,
        SYS_set_robust_list: Free,
        SYS_set_tid_address: Free,
        SYS_setsid: Free,
        SYS_sigaltstack: Free,
        SYS_sysinfo: Free,
        SYS_tgkill: OWN_ID,
        SYS_umask: Free,
        SYS_uname: Free,
        // Memory.
        SYS_brk: Free,
        SYS_getrandom: Free,
        SYS_madvise: ADVICE,
        SYS_mmap: NO_PROGRAM,
        SYS_mprotect: NO_PROGRAM,
        SYS_mremap: Free,
        SYS_munmap: Free,
        // Time.
        SYS_clock_getres: CLOCK,
        SYS_clock_gettime: CLOCK,
        SYS_clock_nanosleep: CLOCK,
        SYS_gettimeofday: Free,
        SYS_nanosleep: Free,
        // Descriptors. Each is this process's, however it came: what it is of was decided when it was opened.
        SYS_cachestat: Free,
        SYS_close: Free,
        SYS_close_range: Free,
        SYS_copy_file_range: Free,
        SYS_dup: Free,
        SYS_dup3: Free,
        SYS_epoll_create1: Free,
        SYS_epoll_ctl: Free,
        SYS_epoll_pwait: Free,
        SYS_epoll_pwait2: Free,
        SYS_eventfd2: Free,
        SYS_fadvise64: Free,
        SYS_fallocate: Free,
        // Nobody gets signals for what happens to it.
        SYS_fcntl: Only(&[
            &[Is(1, &[F_DUPFD_CLOEXEC, F_DUPFD, F_GETFD, F_SETFD, F_GETFL])],
            &[Is(1, &[F_SETFL]), Bits(2, O_ASYNC, &[0])],
        ]),
        SYS_fdatasync: Free,
        SYS_fgetxattr: Free,
        SYS_flock: Left(Locked),
        SYS_fstat: Free,
        SYS_fstatfs: Free,
        SYS_fsync: Free,
        SYS_ftruncate: Free,
        SYS_getdents64: Free,
        SYS_ioctl: Only(&[&[Is(1, IOCTLS)]]),
        SYS_lseek: Free,
        SYS_pipe2: Free,
        SYS_ppoll: Free,
        SYS_pread64: Free,
        SYS_preadv: Free,
        SYS_preadv2: Free,
        SYS_pselect6: Free,
        SYS_pwrite64: Free,
        SYS_pwritev: Free,
        SYS_pwritev2: Free,
        SYS_read: Free,
        SYS_readahead: Free,
        SYS_readv: Free,
        SYS_recvfrom: Free,
        SYS_recvmsg: Free,
        SYS_sendfile: Free,
        // To where the socket is connected.
        SYS_sendto: Only(&[&[Null(4)]]),
        // Each is connected, and stays so: a pair of datagram sockets could be connected to others.
        SYS_socketpair: Only(&[&[
            Is(0, &[AF_UNIX]),
            Bits(1, SOCKET_TYPE, &[SOCK_STREAM, SOCK_SEQPACKET]),
        ]]),
        SYS_splice: Free,
        SYS_sync_file_range: Free,
        // Times of an open file: no path is looked up.
        SYS_utimensat: Only(&[&[Null(1)]]),
        SYS_write: Free,
        SYS_writev: Free,
        // Paths.
        SYS_chdir: Left(LookedAt),
        SYS_faccessat: Left(LookedAt),
        SYS_faccessat2: Left(LookedAt),
        SYS_getcwd: Free,
        SYS_linkat: Left(Opened),
        SYS_mkdirat: Left(Opened),
        SYS_newfstatat: Left(LookedAt),
        SYS_openat: Left(Opened),
        SYS_openat2: Left(Opened),
        SYS_readlinkat: Left(LookedAt),
        SYS_renameat2: Left(Opened),
        SYS_statfs: Left(LookedAt),
        SYS_statx: Left(LookedAt),
        SYS_unlinkat: Left(Opened),
    }
    Bridge {
        SYS_capget: Left(Capabilities),
        SYS_capset: Left(Capabilities),
        SYS_fchmod: Free,
        SYS_fchmodat: Left(Attributes),
        SYS_fchmodat2: Left(Attributes),
        SYS_fchown: Free,
        SYS_fchownat: Left(Attributes),
        // Whether anybody has a file open for writing.
        SYS_fcntl: Only(&[LEASE_SIGNAL, &[Is(1, &[F_SETLEASE]), Is(2, &[F_RDLCK, F_UNLCK])]]),
        SYS_flistxattr: Free,
        SYS_fremovexattr: Free,
        SYS_fsetxattr: Free,
        SYS_getxattr: Left(Attributes),
        SYS_listxattr: Left(Attributes),
        SYS_mknodat: Left(Opened),
        SYS_name_to_handle_at: Left(LookedAt),
        SYS_open_by_handle_at: Left(Opened),
        // Rights of one thread, which do not follow its user.
        SYS_prctl: Only(&[&[Is(0, &[PR_SET_SECUREBITS])]]),
        SYS_removexattr: Left(Attributes),
        SYS_setfsgid: Left(Users),
        SYS_setfsuid: Left(Users),
        SYS_setgroups: Left(Users),
        SYS_setxattr: Left(Attributes),
        SYS_symlinkat: Left(Opened),
        SYS_syncfs: Free,
        // A umask of one thread.
        SYS_unshare: Only(&[&[Is(0, &[CLONE_FS])]]),
        SYS_utimensat: Left(Attributes),
    }
    Export {
        SYS_accept: Free,
        SYS_accept4: Free,
        SYS_getpeername: Free,
        SYS_getsockname: Free,
        SYS_getsockopt: Free,
        SYS_setsockopt: Free,
        SYS_shutdown: Free,
    }
    Network {
        SYS_connect: Left(Addresses),
        SYS_getpeername: Free,
        SYS_getsockname: Free,
        SYS_getsockopt: Free,
        SYS_setsockopt: Free,
        SYS_shutdown: Free,
        // By TCP. Names are looked up by the helper.
        SYS_socket: Only(&[&[
            Is(0, &[AF_INET, AF_INET6]),
            Bits(1, SOCKET_TYPE, &[SOCK_STREAM]),
            Is(2, &[0, IPPROTO_TCP]),
        ]]),
    }
    Native {
        SYS_accept4: Free,
        SYS_shutdown: Free,
    }
    IoUring {
        SYS_io_uring_enter: Left(Rings),
        SYS_io_uring_register: Left(Rings),
        SYS_io_uring_setup: Left(Rings),
    }
    Resident {
        // Whether anybody else has a new file open.
        SYS_fcntl: Only(&[
            LEASE_SIGNAL,
            &[Is(1, &[F_GETLEASE])],
            &[Is(1, &[F_SETLEASE]), Is(2, &[F_WRLCK, F_UNLCK])],
        ]),
    }
};

/// Those of this architecture that newer ones do not have, as C libraries still make them.
#[cfg(target_arch = "x86_64")]
pub(crate) const OLD: &[Call] = calls! {
    Every {
        SYS_access: Left(LookedAt),
        SYS_arch_prctl: Free,
        SYS_dup2: Free,
        SYS_epoll_create: Free,
        SYS_epoll_wait: Free,
        SYS_getrlimit: Free,
        SYS_lstat: Left(LookedAt),
        SYS_mkdir: Left(Opened),
        SYS_open: Left(Opened),
        SYS_pipe: Free,
        SYS_poll: Free,
        SYS_readlink: Left(LookedAt),
        SYS_rename: Left(Opened),
        SYS_rmdir: Left(Opened),
        SYS_select: Free,
        SYS_setrlimit: Free,
        SYS_stat: Left(LookedAt),
        SYS_time: Free,
        SYS_unlink: Left(Opened),
    }
};
/// Those of this architecture that newer ones do not have: none.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const OLD: &[Call] = &[];

/// What C libraries try, and can do without: it fails.
pub(crate) const TRIED_IN_VAIN: &[Call] = calls! {
    Every {
        SYS_clone3: Free,
        // glibc asks where each thread may run when it asks for the thread's stack.
        SYS_sched_getaffinity: Only(&[&[OtherId(0)]]),
    }
};

/// The names and numbers of the system calls that would reach what is not the daemon's own, if the filter did not look at their
/// arguments, or Landlock at their files: tests try each of them.
#[doc(hidden)]
pub fn decided_calls() -> impl Iterator<Item = (&'static str, i64)> {
    let all = CALLS.iter().chain(OLD);
    let decided = all.filter(|call| matches!(call.arguments, Only(_) | Left(Opened)));
    decided.map(|call| (call.name, call.number))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
    };

    use super::*;

    const PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/threat-model/sandbox.md"
    );

    #[test]
    fn what_is_left_is_in_the_table_of_the_documentation() {
        let page = fs::read_to_string(PAGE).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let calls = rows.filter_map(|row| row.split_once('`'));
        let documented: BTreeSet<BTreeSet<_>> =
            calls.map(|(names, _)| names.split(' ').collect()).collect();
        let mut left: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for call in CALLS.iter().chain(OLD) {
            if let Left(what) = call.arguments {
                let name = call.name.strip_prefix("SYS_").unwrap();
                left.entry(what).or_default().insert(name);
            }
        }
        assert_eq!(documented, left.into_values().collect());
    }
}
