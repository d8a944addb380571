use std::{num::NonZeroUsize, thread};

/// The number of processors, and so of threads that hash.
pub fn all_processors() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
