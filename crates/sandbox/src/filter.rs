//! The filter of system calls, as seccomp has it.
//!
//! It allows what is known, by its arguments where they decide. Any other call fails as on a kernel that does not have it, so
//! that C libraries fall back to what they did before.

use std::{collections::BTreeMap, env, process};

use libc::ENOSYS;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompFilter, SeccompRule, apply_filter,
};

use crate::{
    Kind,
    calls::{CALLS, Call, OLD, TRIED_IN_VAIN},
};

/// If this is `kill`, an unknown call ends the process, with SIGSYS: so tests find what is missing in a list.
const UNKNOWN_CALLS: &str = "VERIMOUNT_UNKNOWN_CALLS";

/// What decides which system calls a daemon makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) kind: Kind,
    /// Whether it connects to servers.
    pub(crate) network: bool,
    pub(crate) io_uring: bool,
    /// Whether it keeps files in memory.
    pub(crate) resident: bool,
    /// Whether the kernel reads its image itself.
    pub(crate) native: bool,
}

/// System calls, with the arguments for which a rule holds: any of these, or all if there are none.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Leaves this thread, and those that it starts, the system calls of a daemon with these needs.
pub(crate) fn enter(needs: Needs) -> Result<(), Error> {
    let own = process::id();
    if env::var_os(UNKNOWN_CALLS).is_none_or(|value| value != "kill") {
        return apply_filter(&program(needs, own)?);
    }
    let programs = ending_programs(needs, own)?;
    programs
        .iter()
        .try_for_each(|program| apply_filter(program))
}

/// The programs of the filters by which unknown calls end the process. The kernel obeys the one that does so, unless a call is
/// known to be tried in vain.
fn ending_programs(needs: Needs, own: u32) -> Result<[BpfProgram; 2], BackendError> {
    let tried = rules(TRIED_IN_VAIN, needs, own)?;
    let known = rules(&[CALLS, OLD, TRIED_IN_VAIN].concat(), needs, own)?;
    let ends = SeccompAction::KillProcess;
    Ok([
        compiled(tried, SeccompAction::Allow, fails())?,
        compiled(known, ends, SeccompAction::Allow)?,
    ])
}

/// The program of the filter for a daemon with these needs and this process id.
fn program(needs: Needs, own: u32) -> Result<BpfProgram, BackendError> {
    let allowed = rules(&[CALLS, OLD].concat(), needs, own)?;
    compiled(allowed, fails(), SeccompAction::Allow)
}

fn fails() -> SeccompAction {
    SeccompAction::Errno(ENOSYS.cast_unsigned())
}

/// A filter's program: what it does with the calls of these rules, and with all others. A call of another architecture, whose
/// numbers mean others, ends the process.
fn compiled(
    rules: Rules,
    others: SeccompAction,
    these: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let architecture = env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, others, these, architecture)?.try_into()
}

/// The rules for those of some calls that a daemon with these needs makes.
fn rules(calls: &[Call], needs: Needs, own: u32) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    let mut free = Vec::new();
    for call in calls.iter().filter(|call| call.by.includes(needs)) {
        match call.arguments.rules(own)? {
            None => free.push(call.number),
            // No entry without a rule, which would allow all arguments.
            Some(some) => {
                for rule in some {
                    rules.entry(call.number).or_default().push(rule);
                }
            }
        }
    }
    rules.extend(free.into_iter().map(|number| (number, Vec::new())));
    Ok(rules)
}

// The numbers in them are of this architecture.
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
