use std::{
    num::NonZeroUsize,
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use crate::Scratch;

/// How many finished items may wait for each thread: enough that none idles while another one's
/// turn comes.
const WAITING: usize = 8;

/// Works on the items `0..count` in up to `threads` threads, and consumes the results in order, in
/// the calling thread. Ends early when `consume` fails.
///
/// Each thread works with its own scratch buffer. Memory is bounded by the number of threads. Where
/// the system starts fewer than that, the calling thread does their work.
///
/// # Errors
/// What `consume` gives.
///
/// # Panics
/// If `work` does.
pub fn in_order<T: Send, E>(
    count: u64,
    threads: NonZeroUsize,
    work: impl Fn(u64, &mut Scratch) -> T + Sync,
    mut consume: impl FnMut(u64, T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = (threads.get() as u64).min(count);
    thread::scope(|scope| {
        // Thread t takes the items t, t + threads, …: so each thread's results come in order, and
        // taking one from each in turn gives all in order without ever storing more than a few.
        let workers: Vec<Option<Receiver<T>>> = (0..threads)
            .map(|first| {
                let (send, receive) = sync_channel(WAITING);
                let mine = (first..count).step_by(threads as usize);
                let work = &work;
                let run = move || {
                    let mut scratch = Scratch::default();
                    for item in mine {
                        if send.send(work(item, &mut scratch)).is_err() {
                            return;
                        }
                    }
                };
                let started = thread::Builder::new().spawn_scoped(scope, run);
                started.is_ok().then_some(receive)
            })
            .collect();
        let mut scratch = Scratch::default();
        for item in 0..count {
            let result = match &workers[(item % threads) as usize] {
                Some(worker) => worker.recv().expect("a worker sends all its results"),
                None => work(item, &mut scratch),
            };
            consume(item, result)?;
        }
        Ok(())
    })
}
