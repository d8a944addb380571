use std::{
    num::NonZeroUsize,
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use crate::Scratch;

/// How many results of each thread may wait to be consumed: enough that no thread idles.
const WAITING: usize = 8;

/// Works on the items `0..count` in up to `threads` threads, and consumes the results, which are small, in order, in
/// the calling thread. Ends early when `consume` fails.
///
/// Each thread has its own scratch buffer; otherwise as [`in_order_with`].
///
/// # Errors
/// Those of `consume`.
///
/// # Panics
/// If `work` does.
pub fn in_order<T: Send, E>(
    count: u64,
    threads: NonZeroUsize,
    work: impl Fn(u64, &mut Scratch) -> T + Sync,
    consume: impl FnMut(u64, T) -> Result<(), E>,
) -> Result<(), E> {
    in_order_with(count, threads, WAITING, Scratch::default, work, consume)
}

/// Works on the items `0..count` in several threads, and consumes the results in order, in
/// the calling thread. Ends early when `consume` fails.
///
/// Each thread has its own `state`, such as buffers, and up to `waiting` results of each wait to be consumed. More of them let a
/// thread go on while others are slow. Both numbers bound the memory. If the system
/// starts fewer threads, the calling thread does their share of the work.
///
/// # Errors
/// Those of `consume`.
///
/// # Panics
/// If `state` or `work` does.
pub fn in_order_with<S, T: Send, E>(
    count: u64,
    threads: NonZeroUsize,
    waiting: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(u64, &mut S) -> T + Sync,
    mut consume: impl FnMut(u64, T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = (threads.get() as u64).min(count);
    thread::scope(|scope| {
        // Thread t takes the items t, t + threads, …. Each thread's results come in order, so
        // taking one from each in turn gives all in order, with only a few stored.
        let workers: Vec<Option<Receiver<T>>> = (0..threads)
            .map(|first| {
                let (send, receive) = sync_channel(waiting);
                let mine = (first..count).step_by(threads as usize);
                let (state, work) = (&state, &work);
                let run = move || {
                    let mut state = state();
                    for item in mine {
                        if send.send(work(item, &mut state)).is_err() {
                            return;
                        }
                    }
                };
                let started = thread::Builder::new().spawn_scoped(scope, run);
                started.is_ok().then_some(receive)
            })
            .collect();
        let mut own = None;
        for item in 0..count {
            let result = match &workers[(item % threads) as usize] {
                Some(worker) => worker.recv().expect("a worker sends all its results"),
                None => work(item, own.get_or_insert_with(&state)),
            };
            consume(item, result)?;
        }
        Ok(())
    })
}
