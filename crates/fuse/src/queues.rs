//! The kernel's io_uring queues: one per processor, for the requests made on it.

use std::{io, num::NonZeroUsize, sync::Arc};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use verimount_sys::FuseRing;

use crate::{device::Device, processors};

/// With more processors than this, io_uring is not used: it needs threads for each processor.
const MAX_PROCESSORS: u16 = 256;

/// A slot in a queue, served by one thread.
pub(crate) struct Slot {
    /// The ring that receives the requests.
    pub(crate) ring: FuseRing<Arc<Device>>,
    /// The processor of the queue, if threads of this process may run on it.
    processor: Option<usize>,
}

/// Slots in all queues: `threads` in each, but only one for a processor that is offline or on which
/// this process may not run. `payload_len` is the length of the largest request or answer without its
/// headers.
///
/// # Errors
/// `Unsupported` for too many processors; otherwise the system's error.
pub(crate) fn slots(
    device: &Arc<Device>,
    threads: NonZeroUsize,
    payload_len: usize,
) -> io::Result<Vec<Slot>> {
    let possible = processors::possible()?;
    if possible > MAX_PROCESSORS {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let allowed = sched_getaffinity(None)?;
    let mut slots = Vec::new();
    for queue in 0..possible {
        let number = usize::from(queue);
        let processor = allowed.is_set(number).then_some(number);
        for _ in 0..processor.map_or(1, |_| threads.get()) {
            slots.push(Slot {
                ring: FuseRing::new(device.clone(), queue, payload_len)?,
                processor,
            });
        }
    }
    Ok(slots)
}

impl Slot {
    /// Moves the calling thread to the queue's processor, so that the caller's processor can run it
    /// without waking another one.
    pub(crate) fn move_here(&self) {
        if let Some(processor) = self.processor {
            move_only_to(processor);
        }
    }
}

/// Moves the calling thread to the processor of a queue, if it may run there.
pub(crate) fn move_to(queue: u16) {
    let processor = usize::from(queue);
    if sched_getaffinity(None).is_ok_and(|allowed| allowed.is_set(processor)) {
        move_only_to(processor);
    }
}

fn move_only_to(processor: usize) {
    let mut only = CpuSet::new();
    only.set(processor);
    // If the processor was removed meanwhile, the thread runs anywhere.
    let _ = sched_setaffinity(None, &only);
}
