//! What the filter is meant to allow on x86_64, written apart from the table of calls: the numbers are the kernel's, from
//! `asm/unistd_64.h` and the headers of each call.

use crate::{Kind, filter::Needs};

/// Calls with any arguments, of every daemon.
const EVERY: &str = "0 read 1 write 2 open 3 close 4 stat 5 fstat 6 lstat 7 poll 8 lseek 11 munmap 12 brk 13 rt_sigaction
    14 rt_sigprocmask 15 rt_sigreturn 17 pread64 18 pwrite64 19 readv 20 writev 21 access 22 pipe 23 select 24 sched_yield
    25 mremap 32 dup 33 dup2 35 nanosleep 39 getpid 40 sendfile 45 recvfrom 47 recvmsg 60 exit 63 uname 73 flock
    74 fsync 75 fdatasync 77 ftruncate 79 getcwd 80 chdir 82 rename 83 mkdir 84 rmdir 87 unlink 89 readlink 95 umask
    96 gettimeofday 97 getrlimit 98 getrusage 99 sysinfo 102 getuid 104 getgid 107 geteuid 108 getegid 110 getppid 112 setsid
    115 getgroups 127 rt_sigpending 128 rt_sigtimedwait 130 rt_sigsuspend 131 sigaltstack 137 statfs 138 fstatfs
    158 arch_prctl 160 setrlimit 186 gettid 187 readahead 193 fgetxattr 201 time 213 epoll_create 217 getdents64
    218 set_tid_address 219 restart_syscall 221 fadvise64 231 exit_group 232 epoll_wait 233 epoll_ctl 257 openat 258 mkdirat
    262 newfstatat 263 unlinkat 265 linkat 267 readlinkat 269 faccessat 270 pselect6 271 ppoll 273 set_robust_list 275 splice
    277 sync_file_range 281 epoll_pwait 285 fallocate 290 eventfd2 291 epoll_create1 292 dup3 293 pipe2 295 preadv
    296 pwritev 316 renameat2 318 getrandom 324 membarrier 326 copy_file_range 327 preadv2 328 pwritev2 332 statx 334 rseq
    436 close_range 437 openat2 439 faccessat2 441 epoll_pwait2 451 cachestat";

/// Calls with any arguments, of a bridge.
const BRIDGE: &str = "91 fchmod 93 fchown 116 setgroups 122 setfsuid 123 setfsgid 125 capget 126 capset 188 setxattr
    190 fsetxattr 191 getxattr 194 listxattr 196 flistxattr 197 removexattr 199 fremovexattr 259 mknodat 260 fchownat
    266 symlinkat 268 fchmodat 280 utimensat 303 name_to_handle_at 304 open_by_handle_at 306 syncfs 452 fchmodat2";

/// Calls with any arguments, of an export.
const EXPORT: &str =
    "43 accept 48 shutdown 51 getsockname 52 getpeername 54 setsockopt 55 getsockopt 288 accept4";

/// Calls with any arguments, of what connects to servers.
const NETWORK: &str =
    "42 connect 48 shutdown 51 getsockname 52 getpeername 54 setsockopt 55 getsockopt";

/// Calls with any arguments, of an image that the kernel reads itself.
const NATIVE: &str = "48 shutdown 288 accept4";

/// Calls with any arguments, of what uses `io_uring`.
const IO_URING: &str = "425 io_uring_setup 426 io_uring_enter 427 io_uring_register";

/// Calls that fail and do not end a process that ends by unknown ones: `clone3`; `sched_getaffinity` in the remaining cases.
pub(super) const IN_VAIN: [u32; 2] = [435, 204];

/// The numbers and names of the calls with any arguments.
pub(super) fn free(needs: Needs) -> Vec<(u32, &'static str)> {
    let texts = [
        (true, EVERY),
        (needs.kind == Kind::Bridge, BRIDGE),
        (needs.kind == Kind::Export, EXPORT),
        (needs.network, NETWORK),
        (needs.native, NATIVE),
        (needs.io_uring, IO_URING),
    ];
    let made = texts.into_iter().filter(|(is_made, _)| *is_made);
    let words = made.flat_map(|(_, text)| text.split_whitespace());
    let words: Vec<_> = words.collect();
    let pairs = words.chunks_exact(2);
    pairs
        .map(|pair| (pair[0].parse().unwrap(), pair[1]))
        .collect()
}

/// Whether another call is made, by its arguments. `own` is the id of the process.
pub(super) fn is_made(needs: Needs, own: u32, number: u32, arguments: [u64; 6]) -> bool {
    let is_bridge = needs.kind == Kind::Bridge;
    // Of an `int` the kernel takes the lower half.
    let [a, b, c, ..] = arguments.map(|argument| argument as u32);
    match number {
        // mmap, mprotect: no PROT_EXEC.
        9 | 10 => c & 4 == 0,
        // ioctl: FUSE_DEV_IOC_…, FS_IOC_MEASURE_VERITY, FIONBIO, TCGETS.
        16 => matches!(
            b,
            0x8004_e500 | 0x4010_e501 | 0x4004_e502 | 0xc004_6686 | 0x5421 | 0x5401
        ),
        // madvise
        28 => matches!(c, 0..=4 | 8 | 14..=17 | 102 | 103),
        // socket: AF_INET, AF_INET6; SOCK_STREAM; IPPROTO_TCP.
        41 => needs.network && (a == 2 || a == 10) && b & 15 == 1 && (c == 0 || c == 6),
        // sendto: no address, of all its bits.
        44 => arguments[4] == 0,
        // socketpair: AF_UNIX; SOCK_STREAM, SOCK_SEQPACKET.
        53 => a == 1 && matches!(b & 15, 1 | 5),
        // clone: CLONE_THREAD, and no CLONE_NEW….
        56 => a & 0x7e03_0000 == 0x1_0000,
        // kill, tgkill
        62 | 234 => a == own,
        // fcntl: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC; F_SETFL without O_ASYNC; F_SETSIG with SIGURG; F_SETLEASE
        // with F_RDLCK, F_WRLCK, F_UNLCK; F_GETLEASE.
        72 => match b {
            0..=3 | 1030 => true,
            4 => c & 0x2000 == 0,
            10 => (is_bridge || needs.resident) && c == 23,
            1024 => is_bridge && (c == 0 || c == 2) || needs.resident && (c == 1 || c == 2),
            1025 => needs.resident,
            _ => false,
        },
        // prctl: PR_SET_NAME, PR_GET_NAME, PR_GET_SECUREBITS, PR_SET_IO_FLUSHER, PR_SET_VMA, PR_GET_AUXV; PR_SET_SECUREBITS.
        157 => match a {
            15 | 16 | 27 | 57 | 0x5356_4d41 | 0x4155_5856 => true,
            28 => is_bridge,
            _ => false,
        },
        // futex: WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET, without regard to PRIVATE, CLOCK_REALTIME.
        202 => matches!(b & !0x180, 0 | 1 | 3 | 4 | 5 | 9 | 10),
        // sched_setaffinity, sched_getaffinity, prlimit64
        203 | 204 | 302 => a == 0 || a == own,
        // clock_gettime, clock_getres, clock_nanosleep: no id of a process, which is negative.
        228..=230 => a <= 11,
        // unshare: CLONE_FS.
        272 => is_bridge && a == 0x200,
        // utimensat: no path.
        280 => arguments[1] == 0,
        _ => false,
    }
}

/// The numbers of the calls that [`is_made`] decides about, with values to be tried of their first three arguments.
pub(super) const DECIDED: &[(u32, [&[u64]; 3])] = &[
    (9, [&[], &[], PROTECTIONS]),
    (10, [&[], &[], PROTECTIONS]),
    (16, [&[], IOCTLS, &[]]),
    (28, [&[], &[], ADVICE]),
    (41, [FAMILIES, TYPES, PROTOCOLS]),
    (44, [&[], &[], &[]]),
    (53, [FAMILIES, TYPES, PROTOCOLS]),
    (56, [FLAGS, &[], &[]]),
    (62, [&[], &[9], &[]]),
    (72, [&[2], COMMANDS, FCNTL_VALUES]),
    (157, [PRCTLS, &[], &[]]),
    (202, [&[], FUTEXES, &[]]),
    (203, [&[], &[], &[]]),
    (204, [&[], &[], &[]]),
    (228, [CLOCKS, &[], &[]]),
    (229, [CLOCKS, &[], &[]]),
    (230, [CLOCKS, &[], &[]]),
    (234, [&[], &[], &[9]]),
    (272, [FLAGS, &[], &[]]),
    (280, [&[], &[], &[]]),
    (302, [&[], &[0, 7], &[]]),
];

const PROTECTIONS: &[u64] = &[2, 3, 4, 5, 6, 7, 8, 0x100_0000, 0x100_0004];
const IOCTLS: &[u64] = &[
    0x8004_e500,
    0x8004_e501,
    0x4010_e501,
    0x4004_e502,
    0x4004_e503,
    0xc004_6686,
    0x5421,
    0x5401,
    // TIOCSTI, TIOCSPGRP, FIOASYNC, FIOSETOWN, SIOCSPGRP, FICLONE, FS_IOC_SETFLAGS.
    0x5412,
    0x5410,
    0x5452,
    0x8901,
    0x8902,
    0x4004_9409,
    0x4008_6602,
];
const ADVICE: &[u64] = &[
    2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 100, 101,
    102, 103, 104,
];
const FAMILIES: &[u64] = &[2, 10, 16, 17, 30, 38, 40, 45];
const TYPES: &[u64] = &[
    2, 3, 4, 5, 6, 10, 0x801, 0x8_0001, 0x8_0801, 0x8_0805, 0x8_0802,
];
const PROTOCOLS: &[u64] = &[2, 6, 17, 132, 256, 262];
const FLAGS: &[u64] = &[
    0x200,
    0x300,
    0x1_0000,
    0x1_0080,
    0x3_0000,
    0x3d_0f00,
    0x201_0000,
    0x401_0000,
    0x801_0000,
    0x1001_0000,
    0x2001_0000,
    0x4001_0000,
    0x8001_0000,
    0x7e00_0000,
];
const COMMANDS: &[u64] = &[
    2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 17, 36, 37, 38, 1024, 1025, 1026, 1027, 1028, 1029,
    1030, 1031, 1032, 1033, 1034, 1035, 1036, 1037, 1038,
];
const FCNTL_VALUES: &[u64] = &[2, 3, 9, 23, 24, 0x800, 0x2000, 0x2800];
const PRCTLS: &[u64] = &[
    4,
    15,
    16,
    22,
    27,
    28,
    36,
    57,
    58,
    62,
    0x5356_4d41,
    0x4155_5856,
    0x5961_6d61,
];
const FUTEXES: &[u64] = &[
    2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x80, 0x81, 0x86, 0x88, 0x89, 0x8d, 0x100, 0x189,
    0x186, 0x201, 0x400, 0x1009,
];
const CLOCKS: &[u64] = &[2, 3, 7, 11, 12, 16, 0x7fff_ffff, 0x8000_0000, 0xffff_fffa];
