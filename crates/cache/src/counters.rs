use verimount_source::counters;

counters! {
    /// What a process did with its [`Cache`](crate::Cache) so far.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[non_exhaustive]
    pub struct CacheStats {
        /// Bytes read from it.
        read,
        /// Bytes written to it.
        written,
        /// Bytes dropped because their reader found them wrong.
        rejected,
        /// Bytes evicted to keep it within its size.
        evicted,
        /// Reads, writes and evictions that failed.
        failures,
    }
    /// Counts for [`CacheStats`].
    pub(crate) struct Counters;
}
