//! Large reads by several threads: one hashes slower than most storage reads.

use std::thread;

use verimount::{Error, File};

/// How much a thread reads at least, in bytes: starting it takes as long as hashing a twentieth of that.
const SHARE: usize = 1 << 20;

/// The most threads of a read.
const MOST: usize = 8;

/// Fills `buf` with the bytes from `offset` on, which the file must have.
pub(crate) fn fill(file: &File, buf: &mut [u8], offset: u64) -> Result<(), Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = (buf.len() / SHARE).clamp(1, threads.min(MOST));
    let share = buf.len().div_ceil(threads).next_multiple_of(SHARE);
    let (first, others) = buf.split_at_mut(share.min(buf.len()));
    let starts = (offset..).step_by(share).skip(1);
    thread::scope(|scope| {
        let others: Vec<_> = (others.chunks_mut(share).zip(starts))
            .map(|(part, start)| scope.spawn(move || read(file, part, start)))
            .collect();
        let mut result = read(file, first, offset);
        for other in others {
            // A panic goes on in this thread.
            let other = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(other);
        }
        result
    })
}

fn read(file: &File, buf: &mut [u8], offset: u64) -> Result<(), Error> {
    file.read_at(buf, offset).map(drop)
}
