//! Policies, and their meaning expressed independently.

use verimount_bridge::policy::Access;

pub(super) const USERS: [u32; 2] = [1001, 1002];

/// The bits of [`Denials`] for writing.
pub(super) const ALL_WRITES: Denials = 0b1010;

/// What is denied to each user, as bits: reading and writing for the first, then for the second.
pub(super) type Denials = u32;

/// What stands for all that may be below a directory.
const BELOW: [&str; 3] = ["a", "x.key", "d/a"];

/// A policy, and what it denies at a path below the source.
pub(super) struct Case {
    pub(super) policy: &'static str,
    denies: fn(uid: u32, access: Access, path: &str) -> bool,
}

pub(super) const DENIED: Case = Case {
    policy: r#"
        [[rule]]
        action = "deny"
        path = "secrets/**"
        [[rule]]
        action = "deny"
        access = "write"
        path = "fixed/**"
        [[rule]]
        action = "deny"
        path = "one/**"
        caller_uid = 1001
        [[rule]]
        action = "deny"
        path = "**/*.key"
    "#,
    denies: |uid, access, path| {
        path.starts_with("secrets/")
            || path.starts_with("fixed/") && access == Access::Write
            || path.starts_with("one/") && uid == 1001
            || path.ends_with(".key")
    },
};

/// An allow list: everything else is denied. One size condition does not affect the other rules, and one
/// allows before them.
pub(super) const ALLOWED: Case = Case {
    policy: r#"
        default = "deny"
        [[rule]]
        action = "deny"
        path = "**/*.key"
        size = "0.."
        [[rule]]
        action = "relay"
        path = ["pub/**", "d/**", "e/**"]
        [[rule]]
        action = "passthrough"
        path = "fixed/**"
        access = "read"
        [[rule]]
        action = "relay"
        path = "one/**"
        caller_uid = 1002
    "#,
    denies: |uid, access, path| {
        let is_free = ["pub/", "d/", "e/"]
            .iter()
            .any(|free| path.starts_with(free))
            || path.starts_with("fixed/") && access == Access::Read
            || path.starts_with("one/") && uid == 1002;
        !is_free || path.ends_with(".key")
    },
};

impl Case {
    pub(super) fn denials(&self, path: &str) -> Denials {
        let all = USERS.iter().flat_map(|uid| {
            [Access::Read, Access::Write].map(|access| (self.denies)(*uid, access, path))
        });
        all.enumerate()
            .fold(0, |bits, (bit, denied)| bits | u32::from(denied) << bit)
    }

    /// Whether moving a directory undoes a denial, as far as a few paths below it show.
    pub(super) fn is_loosened_below(&self, from: &str, to: &str) -> bool {
        let mut below = BELOW
            .iter()
            .map(|below| self.denials_below([from, to], below));
        below.any(|[old, new]| old & !new != 0)
    }

    /// Whether a user who moves a directory puts files where they may not write, as far as a few paths below it show: all of
    /// them, or one that they could write to before.
    pub(super) fn is_denied_below(&self, from: &str, to: &str, uid: u32) -> bool {
        let below = BELOW.map(|below| {
            let denials = self.denials_below([from, to], below);
            denials.map(|denials| denies(denials, uid, Access::Write))
        });
        below.iter().all(|[_, new]| *new) || below.iter().any(|[old, new]| *new && !old)
    }

    fn denials_below(&self, directories: [&str; 2], below: &str) -> [Denials; 2] {
        directories.map(|path| self.denials(&format!("{path}/{below}")))
    }
}

/// Whether these denials concern a user.
pub(super) fn denies(denials: Denials, uid: u32, access: Access) -> bool {
    let user = USERS.iter().position(|user| *user == uid).unwrap();
    denials >> (2 * user + usize::from(access == Access::Write)) & 1 == 1
}
