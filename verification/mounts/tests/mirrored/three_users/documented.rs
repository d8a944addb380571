//! Differences that `docs/semantics/bridge.md` lists for every cache mode.

use super::operation::{Change, Operation};
use crate::prelude::*;

/// How an operation ended through the mount and natively.
pub(super) struct Compared {
    pub(super) outcomes: [Result<(), Errno>; 2],
    /// Whether the source is as it was before.
    pub(super) is_unchanged: bool,
    /// Whether the trees differ, or other files were opened.
    pub(super) is_other: bool,
    /// Whether the trees differ only in set-ID bits, if at all.
    pub(super) only_set_ids: bool,
    /// Whether an open file that it uses had lost a name.
    pub(super) is_gone: bool,
    /// Whether the open file that it uses was opened before its permissions or flags have changed in the source.
    pub(super) is_older: bool,
    /// Whether it is about a directory.
    pub(super) is_directory: bool,
    /// Whether files are passed through.
    pub(super) passes: bool,
    /// Whether the caller's writes leave set-ID bits natively.
    pub(super) keeps_set_ids: bool,
}

impl Compared {
    /// Whether less was done through the mount. A rename to another name of the same file has no effect, but
    /// no error either; the kernel may remember that two names are of the same file.
    pub(super) fn is_refusal(&self, operation: &Operation) -> bool {
        self.is_unchanged && (self.outcomes[0].is_err() || operation.is_rename())
    }

    pub(super) fn is_documented(&self, operation: &Operation) -> bool {
        match self.outcomes {
            // It was open only with `O_PATH`, and had not been used before it was moved.
            [Err(Errno::STALE), _] if self.is_gone => self.is_unchanged,
            // The kernel does not move what it remembers of a directory while it renames.
            [Err(Errno::STALE), _] if operation.is_rename() => self.is_unchanged,
            // It remembers set-ID bits that a write has cleared; a file without a name may still have them.
            [Err(Errno::PERM), Ok(())] if operation.links_open() => self.is_unchanged,
            [Ok(()), Err(Errno::PERM)] if operation.links_open() => self.is_gone,
            // It remembers the length.
            [Err(Errno::INVAL), Ok(())] if operation.is_store() => self.is_unchanged,
            // One was found first of two reasons: the mount does not know the flags of `chattr`, and remembers
            // lengths and which directory is below another.
            [Err(Errno::PERM | Errno::STALE), Err(_)] | [Err(_), Err(Errno::PERM)] => {
                !self.is_other
            }
            [Err(_), Err(_)] if !self.is_other => {
                operation.is_store() || operation.is_rename() || operation.links_open()
            }
            // The kernel does not know that a file is append-only, but all is appended nevertheless.
            [Ok(()), Err(Errno::PERM)] if operation.is_clear_append() && !self.is_other => true,
            // The file has become append-only since: it was opened as any other.
            // Root's writes clear set-ID bits too, and so are refused where that is.
            [Ok(()), Err(Errno::PERM)] if operation.is_clear_append() => {
                self.is_older || self.keeps_set_ids && self.is_unchanged
            }
            [Ok(()), Err(Errno::ACCESS)] if operation.is_store() => self.is_older,
            // The kernel knows that there is no such list, and does not check the flags of `chattr`.
            [Ok(()), Err(Errno::PERM)] => {
                let removes_default = matches!(
                    operation,
                    Operation::Change(_, Change::Remove("system.posix_acl_default"))
                );
                removes_default && !self.is_directory && !self.is_other
            }
            // Stores to a relayed mapping clear set-ID bits, which is seen later if the file had no
            // name. Writes and truncations do, whoever makes them.
            [Ok(()), Ok(())] => {
                let is_relayed = !self.passes && operation.is_store();
                let is_seen_now = operation.links_open() && self.is_gone;
                let is_roots = self.keeps_set_ids && operation.writes();
                (is_relayed || is_seen_now || is_roots) && self.only_set_ids
            }
            _ => false,
        }
    }
}
