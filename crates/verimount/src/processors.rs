use std::{num::NonZeroUsize, thread};

/// The number of processors, and so of threads that hash.
pub(crate) fn all_processors() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The default number of threads that serve: enough for concurrent requests to the storage even with few processors.
pub fn auto_threads() -> NonZeroUsize {
    const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
    const MOST: NonZeroUsize = NonZeroUsize::new(8).unwrap();
    all_processors().saturating_mul(TWO).min(MOST)
}
