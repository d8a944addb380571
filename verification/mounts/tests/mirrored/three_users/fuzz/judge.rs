//! Whether a result is what it should be.

use super::{Fuzz, inode};
use crate::prelude::*;
use crate::three_users::{
    documented::Compared,
    operation::{Change, Operation},
    remembered::{Fact, Remembered},
    tree::{Facts, Tree},
};

pub(super) enum Judged {
    Same,
    Excused(String),
    Failure(String),
}

/// What is known of an operation before it is tried.
pub(super) struct Before {
    pub(super) remembered: Remembered,
    /// Whether an open file that it uses has lost a name.
    pub(super) is_gone: bool,
    /// Whether the open file that it uses was opened before its permissions or flags have changed in the source.
    pub(super) is_older: bool,
    /// Whether it is about a directory.
    pub(super) is_directory: bool,
}

impl Fuzz {
    pub(super) fn before(&self, operation: &Operation) -> Before {
        let inode_of = |slot: usize| self.open[slot].as_ref().map(|pair| pair.inode);
        let remembered = Remembered::by(operation, &self.tree, &inode_of);
        let used = operation.slots();
        let mut used = used.iter().filter_map(|slot| self.open[*slot].as_ref());
        let is_gone = used.any(|pair| pair.is_gone);
        let pair = operation.slot().and_then(|slot| self.open[slot].as_ref());
        let change = |inode| self.changes.last(&Fact::Access(inode));
        let is_older = pair.is_some_and(|pair| change(pair.inode) > Some(pair.since));
        Before {
            remembered,
            is_gone,
            is_older,
            is_directory: self.is_directory(operation),
        }
    }

    fn is_directory(&self, operation: &Operation) -> bool {
        let path = match operation.slot().and_then(|slot| self.open[slot].as_ref()) {
            Some(pair) => self.tree.path_of(pair.inode),
            None => operation.paths().first().copied(),
        };
        path.and_then(|path| self.tree.facts(path))
            .is_some_and(Facts::is_directory)
    }

    pub(super) fn judge(
        &self,
        operation: &Operation,
        remembered: &Remembered,
        result: &Compared,
        began: Instant,
    ) -> Judged {
        let [here, there] = result.outcomes;
        if here == there && !result.is_other {
            return Judged::Same;
        }
        let [shown, wanted] = [here, there].map(shown);
        let other = if result.is_other {
            ", other result"
        } else {
            ""
        };
        let kind = format!("{}: {shown}, natively {wanted}{other}", operation.kind());
        let changed = |facts: &[_], bound| self.changes.any(facts, began, bound);
        let changed_lately = |facts: &[_]| self.bound.is_some_and(|bound| changed(facts, bound));
        // Permissions that are remembered allow only what permissions refuse.
        let by_permissions = there == Err(Errno::ACCESS) || operation.is_owners_open();
        let mut deciding = remembered.allows.clone();
        deciding.retain(|fact| by_permissions || matches!(fact, Fact::Name(..)));
        let may_be_allowed = changed_lately(&deciding);
        // Calls on descriptors do not refresh what is remembered, not even if nothing is cached.
        let is_old = self.bound.is_some() || operation.slot().is_some();
        // A file is not served in two ways at once, and one that has become append-only is served in another way.
        let is_busy = here == Err(Errno::BUSY) && operation.is_open();
        let may_be_refused = result.is_refusal(operation)
            && (is_busy && changed(&remembered.allows, Duration::MAX)
                || is_old && changed(&remembered.refuses, Duration::MAX)
                || changed_lately(&remembered.allows));
        // The kernel clears the set-group-ID bit by what it remembers, before the source does: by the group of a
        // file that is changed, and for a new one by the bit of its directory.
        let clearing = match operation {
            Operation::Change(_, Change::Mode(_)) => {
                is_old && changed(&remembered.refuses, Duration::MAX)
            }
            Operation::Open { .. } | Operation::Make(..) => changed_lately(&remembered.allows),
            _ => false,
        };
        let may_be_cleared = clearing && result.only_set_ids;
        if may_be_allowed || may_be_refused || may_be_cleared || result.is_documented(operation) {
            Judged::Excused(kind)
        } else {
            Judged::Failure(kind)
        }
    }

    /// Whether two files are not the same one in the two trees.
    pub(super) fn are_different(&self, mirrored: &OwnedFd, other: &OwnedFd, native: &Tree) -> bool {
        self.tree.names(inode(mirrored)) != native.names(inode(other))
    }
}

pub(super) fn shown(outcome: Result<(), Errno>) -> String {
    match outcome {
        Ok(()) => "allowed".to_owned(),
        Err(errno) => io::Error::from(errno).to_string(),
    }
}
