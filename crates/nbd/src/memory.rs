//! The bounded memory for the data of requests, shared by all clients.

use std::{
    collections::BTreeMap,
    mem,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::{Duration, Instant},
};

use verimount_source::AlignedBuf;
use verimount_sync::{Condvar, Mutex, MutexGuard};

use crate::clients::Client;

/// The smallest buffer, in bytes. All sizes are powers of two, so that buffers can be reused.
const MIN_BUFFER: usize = 64 << 10;

/// The maximum memory kept for later requests while unused, in bytes.
const MAX_KEPT: usize = 16 << 20;

/// A bounded pool of buffers.
pub(crate) struct Memory {
    limit: usize,
    stall: Duration,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// The memory in use, in bytes.
    used: usize,
    /// Unused buffers, and their total length in bytes.
    kept: Vec<AlignedBuf>,
    kept_len: usize,
    /// Ticket numbers: requests get memory in order of arrival.
    next_number: u64,
    served_number: u64,
    /// In the order in which they began.
    transfers: BTreeMap<u64, Transfer>,
    next_transfer: u64,
}

/// A transfer of a buffer from or to a client that is in progress.
struct Transfer {
    client: Arc<Client>,
    since: Instant,
}

/// A buffer of the pool. Dropping it returns the memory.
pub(crate) struct Buffer<'a> {
    memory: &'a Memory,
    bytes: AlignedBuf,
}

impl Memory {
    /// A pool of `limit` bytes; a request that needs more must be the only one. A client that
    /// stalls for longer than `stall` is disconnected if another client needs its memory.
    pub(crate) fn new(limit: usize, stall: Duration) -> Self {
        Self {
            limit,
            stall,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Waits for and returns a buffer of at least `len` bytes for a request of `client`.
    pub(crate) fn take(&self, len: usize, client: &Arc<Client>) -> Buffer<'_> {
        let mut buffer = Buffer {
            memory: self,
            bytes: AlignedBuf::default(),
        };
        if len == 0 {
            return buffer;
        }
        let len = len.next_power_of_two().max(MIN_BUFFER);
        let mut state = self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        while state.served_number != number || !self.has_room(&state, len) {
            state = self.wait(state, client);
        }
        state.served_number += 1;
        state.used += len;
        let kept = state.take_kept(len);
        if state.used + state.kept_len > self.limit {
            state.forget_kept();
        }
        // There may be room for the next request too.
        self.freed.notify_all();
        drop(state);
        buffer.bytes = kept.unwrap_or_else(|| AlignedBuf::zeroed(len));
        buffer
    }

    /// Runs `action`, a transfer of a buffer from or to `client`.
    pub(crate) fn transfer<T>(&self, client: &Arc<Client>, action: impl FnOnce() -> T) -> T {
        let mut state = self.state.lock();
        let transfer = Transfer {
            client: client.clone(),
            since: Instant::now(),
        };
        let number = state.next_transfer;
        state.next_transfer += 1;
        state.transfers.insert(number, transfer);
        drop(state);
        let result = action();
        self.state.lock().transfers.remove(&number);
        result
    }

    fn has_room(&self, state: &State, len: usize) -> bool {
        state.used == 0 || state.used + len <= self.limit
    }

    /// Waits until memory is freed, or disconnects a stalled client to free its memory.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        client: &Arc<Client>,
    ) -> MutexGuard<'a, State> {
        let mut transfers = state.transfers.iter();
        let slowest = transfers.find(|(_, transfer)| !Arc::ptr_eq(&transfer.client, client));
        let left = slowest.map_or(self.stall, |(_, transfer)| {
            self.stall.saturating_sub(transfer.since.elapsed())
        });
        if let (Some((&number, stalled)), Duration::ZERO) = (slowest, left) {
            let reason = "it stalled while others waited for its memory";
            stalled.client.disconnect(reason);
            state.transfers.remove(&number);
            return state;
        }
        self.freed.wait_timeout(state, left)
    }

    fn free(&self, bytes: AlignedBuf) {
        let len = bytes.as_slice().len();
        let mut state = self.state.lock();
        state.used -= len;
        let unneeded = if state.kept_len + len <= MAX_KEPT {
            state.kept_len += len;
            state.kept.push(bytes);
            None
        } else {
            Some(bytes)
        };
        self.freed.notify_all();
        drop(state);
        drop(unneeded);
    }
}

impl State {
    fn take_kept(&mut self, len: usize) -> Option<AlignedBuf> {
        let fits = |kept: &AlignedBuf| kept.as_slice().len() == len;
        let index = self.kept.iter().rposition(fits)?;
        self.kept_len -= len;
        Some(self.kept.swap_remove(index))
    }

    fn forget_kept(&mut self) {
        self.kept.clear();
        self.kept_len = 0;
    }
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.bytes.as_slice().len();
        self.bytes.grown(len)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if !self.is_empty() {
            self.memory.free(mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::{Limits, clients::Clients};

    fn client() -> Arc<Client> {
        let (stream, _) = UnixStream::pair().unwrap();
        Clients::default()
            .admit(stream, &Limits::default())
            .unwrap()
    }

    #[test]
    fn unused_memory_is_mostly_freed() {
        let (memory, client) = (Memory::new(256 << 20, Duration::MAX), client());
        let buffers: Vec<_> = (0..8).map(|_| memory.take(5 << 20, &client)).collect();
        assert_eq!(memory.state.lock().used, 64 << 20);
        drop(buffers);
        let state = memory.state.lock();
        assert_eq!((state.used, state.kept_len), (0, MAX_KEPT));
        assert_eq!(state.kept.len(), 2);
    }

    #[test]
    fn kept_memory_is_counted() {
        let (memory, client) = (Memory::new(4 << 20, Duration::MAX), client());
        drop([(); 4].map(|()| memory.take(1 << 20, &client)));
        assert_eq!(memory.state.lock().kept_len, 4 << 20);
        let small = memory.take(1, &client);
        assert_eq!(small.len(), MIN_BUFFER);
        assert_eq!(memory.state.lock().kept_len, 0);
    }
}
