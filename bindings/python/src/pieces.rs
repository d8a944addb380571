//! Large reads by several threads: one hashes slower than most storage reads.

use std::{
    num::NonZeroUsize,
    sync::OnceLock,
    thread::{self, available_parallelism},
};

use verimount_sync::Mutex;

/// How much a thread reads at a time, in bytes. It takes twenty times as long as starting a thread.
pub(crate) const PIECE: usize = 1 << 20;

/// The most threads of a read.
const MOST: usize = 16;

/// How many threads a large read has: for each processor one that hashes, and one that waits for storage. Called when this module
/// is loaded, as a child must not wait for one that asks.
pub(crate) fn most_threads() -> usize {
    static MOST_THREADS: OnceLock<usize> = OnceLock::new();
    *MOST_THREADS.get_or_init(|| {
        available_parallelism()
            .map_or(1, NonZeroUsize::get)
            .saturating_mul(2)
            .min(MOST)
    })
}

/// Does `work` for all pieces, of which there are `count`, by at most `most` threads. They take the pieces in order, so
/// that storage is read in order. After an error no further ones are begun; that of the first piece is returned.
pub(crate) fn each<P, E: Send>(
    count: usize,
    most: usize,
    pieces: impl Iterator<Item = P> + Send,
    work: impl Fn(P) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let pieces = Mutex::new(pieces.enumerate());
    let failed = Mutex::new(None);
    let next = || match *failed.lock() {
        None => pieces.lock().next(),
        Some(_) => None,
    };
    let worker = || {
        while let Some((number, piece)) = next() {
            if let Err(error) = work(piece) {
                let mut failed = failed.lock();
                if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                    *failed = Some((number, error));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..count.min(most) {
            scope.spawn(worker);
        }
        worker();
    });
    failed.into_inner().map_or(Ok(()), |(_, error)| Err(error))
}
