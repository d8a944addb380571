//! System calls with arguments that are not the daemon's own: ids, paths, signals, priorities, addresses.

use libc::{
    AF_INET, AF_TIPC, AF_UNIX, AT_FDCWD, CLONE_NEWNS, CLONE_NEWUSER, CLONE_SIGHAND, CLONE_THREAD,
    CLONE_VM, F_NOTIFY, F_RDLCK, F_SETFL, F_SETLEASE, F_SETLK, F_SETOWN, F_WRLCK, IPPROTO_MPTCP,
    IPPROTO_SCTP, O_ASYNC, PRIO_PROCESS, PRIO_USER, PROT_EXEC, RLIMIT_CPU, RLIMIT_NOFILE, S_IFBLK,
    SCHED_IDLE, SIGKILL, SIGTERM, SOCK_DGRAM, SOCK_STREAM, c_long,
};

use crate::{
    attempt::Attempt,
    daemon::Kind,
    thread::Argument::{self, Bytes, Number, Text, Zeros},
    victim::Victim,
};

/// `__X32_SYSCALL_BIT`
const X32: c_long = 0x4000_0000;

/// Numbers that libc does not name: commands of `fcntl`, operations of `ioctl`, `futex` and `prctl`, advice of `madvise`.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const TIOCSTI: i32 = 0x5412;
const FIOASYNC: i32 = 0x5452;
const FIOSETOWN: i32 = 0x8901;
const SIOCSPGRP: i32 = 0x8902;
const FUTEX_LOCK_PI: i32 = 6;
const FUTEX_TRYLOCK_PI: i32 = 8;
const FUTEX_LOCK_PI2: i32 = 13;
const PR_SCHED_CORE: i32 = 62;
const PR_SET_PTRACER: i32 = 0x5961_6d61;
const MADV_HWPOISON: i32 = 100;

/// A mask with the first processor.
const PROCESSORS: Argument<'_> = Bytes(&[1]);
/// `struct sockaddr_in` of 127.0.0.1:80.
const ADDRESS: Argument<'_> = Bytes(&[2, 0, 0, 80, 127, 0, 0, 1]);
/// A descriptor that each daemon has.
const STDERR: Argument<'_> = number(2);
const HERE: Argument<'_> = number(AT_FDCWD);
const NONE: Argument<'_> = number(0);
const KILL: Argument<'_> = number(SIGKILL);

const fn number(value: i32) -> Argument<'static> {
    Number(value as i64)
}

/// Attempts, each named by how it is written here.
macro_rules! attempts {
    ($($call:ident($($argument:expr),*)),* $(,)?) => {
        vec![$(Attempt::new(
            stringify!($call($($argument),*)),
            libc::$call,
            &[$($argument),*],
        )),*]
    };
}

/// A victim's process, as it is named in numbers and in memory.
pub struct Names {
    id: i32,
    /// The id alone.
    word: [u8; 4],
    /// `struct f_owner_ex`
    owner: [u8; 8],
    /// `struct __user_cap_header_struct`
    header: [u8; 8],
}

impl Names {
    /// Those of `victim`.
    pub fn of(victim: &Victim) -> Self {
        let id = victim.id();
        let behind = |first: i32| {
            let mut both = [0; 8];
            both[..4].copy_from_slice(&first.to_ne_bytes());
            both[4..].copy_from_slice(&id.to_ne_bytes());
            both
        };
        Self {
            id,
            word: id.to_ne_bytes(),
            // F_OWNER_PID; _LINUX_CAPABILITY_VERSION_3
            owner: behind(1),
            header: behind(0x2008_0522),
        }
    }
}

/// What a daemon of this kind must not be able to do, most of it to `victim`, which `names` names: by the filter; by Landlock.
pub fn attempts<'a>(
    victim: &'a Victim,
    names: &'a Names,
    kind: Kind,
) -> (Vec<Attempt<'a>>, Vec<Attempt<'a>>) {
    let by_id = [limits, signals, others].map(|with| with(names.id));
    let mut filtered: Vec<_> = by_id.into_iter().flatten().collect();
    filtered.extend(
        limits(names.id)
            .into_iter()
            .chain(signals(names.id))
            .map(by_x32),
    );
    filtered.extend(attributes_as_before(victim));
    filtered.extend(descriptors(names, kind));
    filtered.extend(things());
    if kind != Kind::Bridge {
        filtered.extend(attributes(victim));
    }
    (filtered, files(victim))
}

/// The call by its number of x32, an interface that not every kernel has.
fn by_x32(mut attempt: Attempt<'_>) -> Attempt<'_> {
    attempt.number |= X32;
    attempt
}

/// Limits, processors and priorities.
fn limits(id: i32) -> Vec<Attempt<'static>> {
    let other = number(id);
    // To the kernel it is the same.
    let long = Number(i64::from(id) | 1 << 32);
    let [time, files] = [RLIMIT_CPU, RLIMIT_NOFILE].map(|limit| number(limit as i32));
    let [process, user] = [PRIO_PROCESS, PRIO_USER].map(|which| number(which as i32));
    attempts![
        SYS_prlimit64(other, time, Zeros),
        SYS_prlimit64(other, files, Zeros),
        SYS_prlimit64(long, files, Zeros),
        SYS_prlimit64(other, files, NONE, Zeros),
        SYS_prlimit64(number(1), files, NONE, Zeros),
        SYS_sched_setaffinity(other, number(8), PROCESSORS),
        SYS_sched_setaffinity(long, number(8), PROCESSORS),
        SYS_sched_getaffinity(other, number(128), Zeros),
        SYS_sched_setscheduler(other, number(SCHED_IDLE), Zeros),
        SYS_sched_setparam(other, Zeros),
        SYS_sched_setattr(other, Zeros, NONE),
        SYS_sched_getscheduler(other),
        SYS_sched_getattr(other, Zeros, number(48), NONE),
        SYS_setpriority(process, other, number(19)),
        SYS_setpriority(user, NONE, number(19)),
        SYS_ioprio_set(number(1), other, number(3 << 13)),
    ]
}

/// Signals by ids. None is sent to all processes if it should reach them.
fn signals(id: i32) -> Vec<Attempt<'static>> {
    let (other, group) = (number(id), number(-id));
    let long = Number(i64::from(id) | 1 << 32);
    attempts![
        SYS_kill(other, KILL),
        SYS_kill(long, KILL),
        SYS_kill(group, KILL),
        SYS_kill(number(0), NONE),
        SYS_kill(number(-1), NONE),
        SYS_tgkill(other, other, KILL),
        SYS_tkill(other, KILL),
        SYS_rt_sigqueueinfo(other, KILL, Zeros),
        SYS_rt_tgsigqueueinfo(other, other, KILL, Zeros),
        SYS_setpgid(other, other),
    ]
}

/// What else takes the id of a process.
fn others(id: i32) -> Vec<Attempt<'static>> {
    let other = number(id);
    // CPUCLOCK_SCHED of the process.
    let clock = number(!id << 3 | 2);
    let (one, all) = (number(1), number(-1));
    attempts![
        SYS_kcmp(other, other, NONE, NONE, NONE),
        SYS_pidfd_open(other, NONE),
        SYS_ptrace(number(0x4206), other),
        SYS_process_vm_writev(other, Zeros, one, Zeros, one),
        SYS_migrate_pages(other, number(64), PROCESSORS, PROCESSORS),
        SYS_move_pages(other, NONE),
        SYS_get_robust_list(other, Zeros, Zeros),
        SYS_perf_event_open(Zeros, other, all, all, NONE),
        SYS_clock_gettime(clock, Zeros),
        SYS_clock_getres(clock, Zeros),
        SYS_clock_nanosleep(clock, NONE, Zeros, NONE),
        SYS_prctl(number(PR_SET_PTRACER), other),
        SYS_prctl(number(PR_SCHED_CORE), number(2), other),
    ]
}

/// What has others told by a descriptor, or finds them by one, or by an id in memory.
fn descriptors(names: &Names, kind: Kind) -> Vec<Attempt<'_>> {
    let other = number(names.id);
    let (id, owner) = (Bytes(&names.word), Bytes(&names.owner));
    let lease = number(if kind == Kind::Bridge {
        F_WRLCK
    } else {
        F_RDLCK
    });
    attempts![
        SYS_fcntl(STDERR, number(F_SETOWN), other),
        SYS_fcntl(STDERR, number(F_SETOWN_EX), owner),
        SYS_fcntl(STDERR, number(F_SETSIG), KILL),
        SYS_fcntl(STDERR, number(F_SETSIG), number(SIGTERM)),
        SYS_fcntl(STDERR, number(F_SETFL), number(O_ASYNC)),
        SYS_fcntl(STDERR, number(F_SETLEASE), lease),
        SYS_fcntl(STDERR, number(F_NOTIFY), number(4)),
        SYS_fcntl(STDERR, number(F_SETLK), Zeros),
        SYS_ioctl(STDERR, number(FIOASYNC), id),
        SYS_ioctl(STDERR, number(FIOSETOWN), id),
        SYS_ioctl(STDERR, number(SIOCSPGRP), id),
        SYS_ioctl(STDERR, number(TIOCSTI), id),
        SYS_pidfd_send_signal(STDERR, KILL, NONE),
        SYS_pidfd_getfd(STDERR, NONE, NONE),
        SYS_process_madvise(STDERR, Zeros, number(1), number(21)),
        SYS_process_mrelease(STDERR, NONE),
        SYS_setns(STDERR, NONE),
        SYS_capset(Bytes(&names.header), Zeros),
        SYS_futex(id, number(FUTEX_LOCK_PI), NONE, Zeros),
        SYS_futex(id, number(FUTEX_LOCK_PI2), NONE, Zeros),
        SYS_futex(id, number(FUTEX_TRYLOCK_PI)),
    ]
}

/// What reaches others by a kind of thing: memory, threads, sockets.
fn things() -> Vec<Attempt<'static>> {
    let thread = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
    let (inet, stream) = (number(AF_INET), number(SOCK_STREAM));
    let (unix, datagrams) = (number(AF_UNIX), number(SOCK_DGRAM));
    attempts![
        SYS_madvise(Zeros, number(1), number(MADV_HWPOISON)),
        SYS_mprotect(NONE, NONE, number(PROT_EXEC)),
        SYS_mmap(NONE, NONE, number(PROT_EXEC)),
        SYS_clone(number(thread | CLONE_NEWNS)),
        SYS_unshare(number(CLONE_NEWUSER)),
        SYS_socketpair(unix, datagrams, NONE, Zeros),
        SYS_socketpair(number(AF_TIPC), stream, NONE, Zeros),
        SYS_socket(inet, stream, number(IPPROTO_MPTCP)),
        SYS_socket(inet, stream, number(IPPROTO_SCTP)),
        SYS_sendto(STDERR, Zeros, number(1), NONE, ADDRESS, number(16)),
    ]
}

/// What opens, makes, renames and removes files.
fn files(victim: &Victim) -> Vec<Attempt<'_>> {
    let [file, directory, link, new] =
        [&victim.file, &victim.directory, &victim.link, &victim.new].map(|path| Text(path));
    let mode = number(0o700);
    let device = Number((S_IFBLK | 0o600).into());
    let mut all = attempts![
        SYS_openat(HERE, file, NONE),
        SYS_openat2(HERE, file, Zeros, number(24)),
        SYS_open(file, NONE),
        SYS_mkdirat(HERE, new, mode),
        SYS_mkdir(new, mode),
        SYS_mknodat(HERE, new, device, number(0x100)),
        SYS_symlinkat(file, HERE, new),
        SYS_linkat(HERE, file, HERE, new, NONE),
        SYS_renameat2(HERE, file, HERE, new, NONE),
        SYS_rename(file, new),
        SYS_unlinkat(HERE, file, NONE),
        SYS_unlink(link),
        SYS_rmdir(directory),
    ];
    if let Some(handle) = &victim.handle {
        all.extend(attempts![SYS_open_by_handle_at(HERE, Bytes(handle), NONE)]);
    }
    all
}

/// What no daemon needs, and root's could do to any file of root's: Landlock does not hold it.
fn attributes_as_before(victim: &Victim) -> Vec<Attempt<'_>> {
    let file = Text(&victim.file);
    attempts![
        SYS_chmod(file, NONE),
        SYS_chown(file, NONE, NONE),
        SYS_truncate(file, NONE),
    ]
}

/// What reads and sets attributes of files by their paths, which is left to bridges.
fn attributes(victim: &Victim) -> Vec<Attempt<'_>> {
    let (file, name) = (Text(&victim.file), Text("user.verimount"));
    let owner = number(1000);
    attempts![
        SYS_fchmodat(HERE, file, NONE),
        SYS_fchownat(HERE, file, owner, owner, NONE),
        SYS_utimensat(HERE, file, Zeros, NONE),
        SYS_setxattr(file, name, Zeros, NONE, NONE),
        SYS_getxattr(file, name, Zeros, NONE),
        SYS_listxattr(file, Zeros, NONE),
        SYS_removexattr(file, name),
    ]
}
