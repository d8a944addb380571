//! What the descriptors of this process are for.

use rustix::process::{Resource, getrlimit};

/// One in this many of the descriptors that the process may have is for files that were used lately,
/// and as many are for backing files that are kept for their next open.
const KEPT_SHARE: u64 = 8;

/// The most of either that are kept where the limit is high: a build or a search hardly comes back to
/// more.
const MAX_KEPT: u64 = 4096;

/// One in this many descriptors is for what threads need while they answer.
const ANSWERING_SHARE: u64 = 4;

/// The most descriptors that threads need: four each for 256 of them.
const MAX_ANSWERING: u64 = 1024;

/// The most descriptors that an open file takes: one as a path, and one to read and write by.
const PER_OPEN_FILE: u64 = 2;

/// How many files that were used lately, or how many backing files, may be kept.
pub(crate) fn max_kept() -> u64 {
    (limit() / KEPT_SHARE).min(MAX_KEPT)
}

/// How many files may be open through a bridge, by all users together, so that there are descriptors
/// left for whatever else the process needs to answer: one for what each of them asks.
pub fn max_open_files() -> usize {
    let answering = (limit() / ANSWERING_SHARE).min(MAX_ANSWERING);
    let others = 2 * max_kept() + answering;
    usize::try_from((limit() - others) / PER_OPEN_FILE).unwrap_or(usize::MAX)
}

/// The process's own limit. The kernel's, of all open files of the system (`file-max`), does not hold
/// for root; each user's own opens count towards it as much as what is opened here for them.
fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
