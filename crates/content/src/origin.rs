use std::time::Duration;

/// Where content comes from, if not only from this machine.
pub trait Origin: Send + Sync {
    /// What was fetched from there and kept here.
    fn status(&self) -> OriginStatus;

    /// How long a read waits at most for each of the things that it takes: data, and blocks of the Merkle tree.
    fn patience(&self) -> Duration;

    /// Ends what is under way, as the mount has ended: all reads that wait fail.
    fn close(&self);
}

/// Where content comes from, in such a way that whoever may read it may read all that comes from there.
pub(crate) struct ContentOrigin {
    pub(crate) name: String,
    /// Whether the content was found there, and not in the cache or elsewhere. Else it does not become what others from there are
    /// shared with: who only knows the digest of content that needs credentials could have it count as that of any server.
    pub(crate) has_it: bool,
}

/// The statistics of an [`Origin`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct OriginStatus {
    /// Requests that were sent.
    pub requests: u64,
    /// Bytes of content that were received.
    pub bytes_received: u64,
    /// Attempts that failed and were repeated because the server could not answer then.
    pub retries_busy: u64,
    /// Attempts that failed and were repeated because no connection could be made.
    pub retries_unreachable: u64,
    /// Attempts that failed and were repeated because a transfer broke off.
    pub retries_broken: u64,
    /// Received bytes that did not match, and were dropped.
    pub bytes_rejected: u64,
    /// How often a file was of another version than before, as its server says.
    pub changes: u64,
    /// Another release in the place of the content, where blocks of it were found last.
    pub replaced: Option<OriginReplacement>,
    /// The last request that failed, even if a repetition succeeded.
    pub last_failure: Option<OriginFailure>,
    /// Bytes that the process keeps in memory of what it fetched, for all that it reads.
    pub fetch_memory: u64,
    /// How many those are, at most, but for what readers wait for.
    pub fetch_memory_limit: u64,
    /// What is kept on disk; `None` without a cache.
    pub cache: Option<CacheStatus>,
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct OriginFailure {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Why.
    pub reason: String,
}

/// A release, signed with the key that is required, in the place of the one that is served. It was published over it: nothing is
/// damaged or forged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct OriginReplacement {
    /// When blocks of it were found last, in seconds since 1970.
    pub at: u64,
    /// Where.
    pub place: String,
    /// Its digest.
    pub digest: String,
}

/// The statistics of a cache on disk, as far as this process used it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "json",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct CacheStatus {
    /// Where it is, as [`printable`](verimount_names::printable) shows it.
    pub directory: String,
    /// Bytes read from it instead of being fetched.
    pub bytes_read: u64,
    /// Bytes written to it.
    pub bytes_written: u64,
    /// Bytes of it that did not match, or were evicted while they were read, and were fetched again.
    pub bytes_rejected: u64,
    /// Bytes evicted to keep it within its size.
    pub bytes_evicted: u64,
    /// Reads, writes and evictions that failed. Reads then fetch, and writes are omitted.
    pub failures: u64,
}
