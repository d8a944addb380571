//! How the descriptors of this process are divided among their uses.

use rustix::process::{Resource, getrlimit};

/// One in this many of the descriptors that the process may have is for recently used files, and as
/// many are for idle backing files.
const KEPT_SHARE: u64 = 8;

/// The most of either that are kept if the limit is high: a build or a search rarely reuses more.
const MAX_KEPT: u64 = 4096;

/// One in this many descriptors is for what threads need while they answer.
const ANSWERING_SHARE: u64 = 4;

/// The most descriptors that threads need: four each for 304 of them.
const MAX_ANSWERING: u64 = 1216;

/// The most descriptors that an open file takes: one as a path, and one to read and write by.
const PER_OPEN_FILE: u64 = 2;

/// How many recently used files, or idle backing files, may be kept.
pub(crate) fn max_kept() -> u64 {
    (limit() / KEPT_SHARE).min(MAX_KEPT)
}

/// How many files all users of a bridge together may have open. The remaining descriptors are for
/// the process's own work.
pub fn max_open_files() -> usize {
    let answering = (limit() / ANSWERING_SHARE).min(MAX_ANSWERING);
    let others = 2 * max_kept() + answering;
    usize::try_from((limit() - others) / PER_OPEN_FILE).unwrap_or(usize::MAX)
}

/// The limit of this process. The kernel's limit for the whole system (`file-max`) does not apply
/// to root; each user's own opens count towards it as much as those made here for them.
fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
