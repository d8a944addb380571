//! Who may read attributes in `trusted.`: the system's root, or whoever else has that capability.

use std::fs;

use rustix::thread::CapabilitySet;
use verimount_fuse::Caller;

/// The user of callers of which the kernel tells none, as the mount could be shown with other owners.
const UNTOLD: u32 = u32::MAX;

/// Whether a caller may. This process must be in a user namespace with all users of the system.
pub(super) fn is_administrator(caller: Caller) -> bool {
    match caller.uid {
        // It waits for an answer, so that its id cannot become another's.
        UNTOLD => {
            let process = caller.pid.to_string();
            has_all_users(&process).unwrap_or(false) && has_capability(&process).unwrap_or(false)
        }
        uid => uid == 0,
    }
}

/// Whether a process, as `/proc` names it, is in the system's own user namespace, or in one with the same users. `None` if that
/// cannot be found out.
pub(super) fn has_all_users(process: &str) -> Option<bool> {
    let map = fs::read_to_string(format!("/proc/{process}/uid_map")).ok()?;
    Some(map.split_whitespace().eq(["0", "0", "4294967295"]))
}

fn has_capability(process: &str) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let bits = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(bits.trim(), 16).ok()?;
    Some(CapabilitySet::from_bits_retain(bits).contains(CapabilitySet::SYS_ADMIN))
}

#[cfg(test)]
mod tests {
    use rustix::{
        process::geteuid,
        thread::{capabilities, gettid},
    };

    use super::*;

    fn caller(uid: u32, pid: u32) -> Caller {
        Caller {
            uid,
            gid: uid,
            pid,
            request: 0,
        }
    }

    #[test]
    fn callers_without_a_user_are_judged_by_their_capabilities() {
        let own = gettid().as_raw_nonzero().get().cast_unsigned();
        let may = capabilities(None)
            .unwrap()
            .effective
            .contains(CapabilitySet::SYS_ADMIN);
        let is_known = has_all_users("self") == Some(true);
        assert_eq!(is_administrator(caller(UNTOLD, own)), may && is_known);
        assert!(!is_administrator(caller(UNTOLD, 0)));
        assert!(!is_administrator(caller(UNTOLD, u32::MAX)));
    }

    #[test]
    fn callers_with_a_user_are_judged_by_it() {
        assert!(is_administrator(caller(0, 0)));
        assert!(!is_administrator(caller(1, geteuid().as_raw())));
    }
}
