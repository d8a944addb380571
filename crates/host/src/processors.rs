use std::num::NonZeroUsize;

use verimount_source::all_processors;

/// The default number of threads that serve: enough for concurrent requests to the storage even with few processors.
pub fn auto_threads() -> NonZeroUsize {
    const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
    const MOST: NonZeroUsize = NonZeroUsize::new(8).unwrap();
    all_processors().saturating_mul(TWO).min(MOST)
}
