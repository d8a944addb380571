//! The filter of system calls, as seccomp has it.
//!
//! It allows what is known, by its arguments where they decide. Any other call fails as on a kernel that does not have it, so
//! that C libraries fall back to what they did before.

use std::{collections::BTreeMap, env, process};

use libc::{
    AF_INET, AF_INET6, CLONE_FS, CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS,
    CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, CLONE_THREAD, ENOSYS, PR_GET_NAME,
    PR_GET_SECUREBITS, PR_SET_NAME, PR_SET_SECUREBITS, PROT_EXEC, SOCK_SEQPACKET, SOCK_STREAM,
    SYS_clone, SYS_clone3, SYS_ioctl, SYS_kill, SYS_mmap, SYS_mprotect, SYS_prctl, SYS_sendto,
    SYS_socket, SYS_socketpair, SYS_tgkill, SYS_unshare, SYS_utimensat,
};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};

use crate::{Kind, calls};

/// If this is `kill`, an unknown call ends the process, with SIGSYS: so tests find what is missing in a list.
const UNKNOWN_CALLS: &str = "VERIMOUNT_UNKNOWN_CALLS";

/// The operations of `ioctl` that daemons use.
const IOCTLS: [u32; 6] = [
    // FUSE_DEV_IOC_CLONE, FUSE_DEV_IOC_BACKING_OPEN, FUSE_DEV_IOC_BACKING_CLOSE
    0x8004_e500,
    0x4010_e501,
    0x4004_e502,
    // FS_IOC_MEASURE_VERITY
    0xc004_6686,
    // FIONBIO
    0x5421,
    // TCGETS, by which a terminal is known
    0x5401,
];

/// `FS_IOC_SETFLAGS`, by which files in memory are sealed.
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;

/// `PR_SET_IO_FLUSHER`; `PR_SET_VMA`, by which C libraries name memory; `PR_GET_AUXV`.
const PR_SET_IO_FLUSHER: i32 = 57;
const PR_SET_VMA: i32 = 0x5356_4d41;
const PR_GET_AUXV: i32 = 0x4155_5856;

/// The operations of `prctl` that daemons use.
const PRCTLS: [i32; 6] = [
    PR_GET_SECUREBITS,
    PR_SET_NAME,
    PR_GET_NAME,
    PR_SET_IO_FLUSHER,
    PR_SET_VMA,
    PR_GET_AUXV,
];

/// What puts a thread into a namespace of its own.
const NAMESPACES: i32 = CLONE_NEWCGROUP
    | CLONE_NEWIPC
    | CLONE_NEWNET
    | CLONE_NEWNS
    | CLONE_NEWPID
    | CLONE_NEWUSER
    | CLONE_NEWUTS;

/// The kind of a socket, without its flags.
const SOCKET_TYPE: u64 = 0xf;

/// System calls, with the arguments for which a rule holds: any of these, or all if there are none.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Leaves this thread, and those that it starts, the system calls of this kind of daemon.
pub(crate) fn enter(
    kind: Kind,
    network: bool,
    io_uring: bool,
    resident: bool,
) -> Result<(), Error> {
    let allowed = allowed(kind, network, io_uring, resident)?;
    let fails = SeccompAction::Errno(ENOSYS.cast_unsigned());
    if env::var_os(UNKNOWN_CALLS).is_none_or(|value| value != "kill") {
        return apply(allowed, fails, SeccompAction::Allow);
    }
    // The kernel obeys the filter that ends the process, unless the call is known to be tried in vain.
    let tried = tried_in_vain();
    let mut known = allowed;
    for (call, rules) in tried.clone() {
        known.entry(call).or_default().extend(rules);
    }
    apply(tried, SeccompAction::Allow, fails)?;
    apply(known, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// Adds a filter: what it does with the calls of these rules, and with all others.
fn apply(rules: Rules, others: SeccompAction, these: SeccompAction) -> Result<(), Error> {
    let architecture = env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, others, these, architecture)?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter(&program)
}

fn allowed(
    kind: Kind,
    network: bool,
    io_uring: bool,
    resident: bool,
) -> Result<Rules, BackendError> {
    let lists = [
        (true, calls::ALL),
        (true, calls::OLD),
        (kind == Kind::Bridge, calls::BRIDGE),
        (kind == Kind::Export, calls::EXPORT),
        (network, calls::NETWORK),
        (io_uring, calls::IO_URING),
    ];
    let lists = lists.into_iter().filter(|(is_needed, _)| *is_needed);
    let calls = lists.flat_map(|(_, list)| list);
    let mut rules: Rules = calls.map(|call| (*call, Vec::new())).collect();
    let own = u64::from(process::id());
    // Threads, and no processes; in no other namespace.
    let flags = bits(CLONE_THREAD | NAMESPACES);
    rules.insert(SYS_clone, vec![masked(0, flags, CLONE_THREAD)?]);
    for call in [SYS_kill, SYS_tgkill] {
        rules.insert(call, vec![is(0, own)?]);
    }
    let mut ioctls = any(1, IOCTLS)?;
    if resident {
        ioctls.push(is(1, FS_IOC_SETFLAGS.into())?);
    }
    rules.insert(SYS_ioctl, ioctls);
    rules.insert(SYS_prctl, any(0, PRCTLS.map(i32::cast_unsigned))?);
    // Each is connected, and stays so: a pair of datagram sockets could be connected to others.
    let types = [SOCK_STREAM, SOCK_SEQPACKET].map(|kind| masked(1, SOCKET_TYPE, kind));
    rules.insert(SYS_socketpair, types.into_iter().collect::<Result<_, _>>()?);
    // No memory that programs could be written to.
    for call in [SYS_mmap, SYS_mprotect] {
        rules.insert(call, vec![masked(2, bits(PROT_EXEC), 0)?]);
    }
    // To where the socket is connected.
    rules.insert(SYS_sendto, vec![is_null(4)?]);
    match kind {
        Kind::Bridge => {
            let own_rights = is(0, bits(PR_SET_SECUREBITS))?;
            rules.entry(SYS_prctl).or_default().push(own_rights);
            rules.insert(SYS_unshare, vec![is(0, bits(CLONE_FS))?]);
        }
        // Times of an open file: no path is looked up.
        Kind::Image | Kind::Volume | Kind::Export => {
            rules.insert(SYS_utimensat, vec![is_null(1)?]);
        }
    }
    if network {
        // Names are looked up by the helper.
        let families = [AF_INET, AF_INET6].map(stream_of);
        rules.insert(SYS_socket, families.into_iter().collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// What C libraries try, and can do without.
fn tried_in_vain() -> Rules {
    [(SYS_clone3, Vec::new())].into()
}

fn bits(flags: i32) -> u64 {
    flags.cast_unsigned().into()
}

/// An argument, counted from 0, has this value.
fn is(argument: u8, value: u64) -> Result<SeccompRule, BackendError> {
    let equal = SeccompCmpOp::Eq;
    SeccompRule::new(vec![SeccompCondition::new(
        argument,
        Width::Dword,
        equal,
        value,
    )?])
}

/// An argument has any of these values.
fn any<const N: usize>(argument: u8, values: [u32; N]) -> Result<Vec<SeccompRule>, BackendError> {
    let each = values.into_iter().map(|value| is(argument, value.into()));
    each.collect()
}

/// An argument has these bits, of those in the mask.
fn masked(argument: u8, mask: u64, value: i32) -> Result<SeccompRule, BackendError> {
    let equal = SeccompCmpOp::MaskedEq(mask);
    let condition = SeccompCondition::new(argument, Width::Dword, equal, bits(value))?;
    SeccompRule::new(vec![condition])
}

/// A socket of this family, for a connection.
fn stream_of(family: i32) -> Result<SeccompRule, BackendError> {
    let equal = SeccompCmpOp::Eq;
    let stream = SeccompCmpOp::MaskedEq(SOCKET_TYPE);
    SeccompRule::new(vec![
        SeccompCondition::new(0, Width::Dword, equal, bits(family))?,
        SeccompCondition::new(1, Width::Dword, stream, bits(SOCK_STREAM))?,
    ])
}

/// An argument is no address.
fn is_null(argument: u8) -> Result<SeccompRule, BackendError> {
    let equal = SeccompCmpOp::Eq;
    SeccompRule::new(vec![SeccompCondition::new(
        argument,
        Width::Qword,
        equal,
        0,
    )?])
}
