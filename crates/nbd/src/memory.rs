//! The memory for the data of requests, which all clients share.

use std::{
    mem,
    ops::{Deref, DerefMut},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use verimount_source::AlignedBuf;

use crate::clients::Client;

/// The smallest buffer, in bytes. All sizes are powers of two, so that buffers fit other requests.
const MIN_BUFFER: usize = 64 << 10;

/// How much memory is kept for later requests while none needs it, in bytes.
const MAX_KEPT: usize = 16 << 20;

/// Memory of a bounded size.
pub(crate) struct Memory {
    limit: usize,
    stall: Duration,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// How much is in use, in bytes.
    used: usize,
    /// Buffers that are not in use, and how many bytes they have together.
    kept: Vec<AlignedBuf>,
    kept_len: usize,
    /// Requests are given memory in the order in which they come: by these numbers.
    next_number: u64,
    served_number: u64,
    transfers: Vec<Transfer>,
}

/// A buffer that a client fills or takes at the moment.
struct Transfer {
    client: Arc<Client>,
    since: Instant,
}

/// Memory that is in use until this is dropped.
pub(crate) struct Buffer<'a> {
    memory: &'a Memory,
    bytes: AlignedBuf,
}

impl Memory {
    /// Memory of `limit` bytes; a request that needs more has to be alone. A client that stalls for
    /// longer than `stall` is disconnected if another one needs its memory.
    pub(crate) fn new(limit: usize, stall: Duration) -> Self {
        Self {
            limit,
            stall,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Memory for `len` bytes of a request of `client`. Waits until there is some.
    pub(crate) fn take(&self, len: usize, client: &Arc<Client>) -> Buffer<'_> {
        let mut buffer = Buffer {
            memory: self,
            bytes: AlignedBuf::default(),
        };
        if len == 0 {
            return buffer;
        }
        let len = len.next_power_of_two().max(MIN_BUFFER);
        let mut state = self.state();
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
        // There may be room for the next one, too.
        self.notify(&state);
        drop(state);
        buffer.bytes = kept.unwrap_or_else(|| AlignedBuf::zeroed(len));
        buffer
    }

    /// Has `client` fill or take a buffer.
    pub(crate) fn transfer<T>(&self, client: &Arc<Client>, action: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        self.state().transfers.push(Transfer {
            client: client.clone(),
            since,
        });
        let result = action();
        let mut state = self.state();
        // Another client's can have begun at the same time.
        let own =
            |transfer: &Transfer| transfer.since == since && Arc::ptr_eq(&transfer.client, client);
        if let Some(own) = state.transfers.iter().position(own) {
            state.transfers.swap_remove(own);
        }
        result
    }

    fn has_room(&self, state: &State, len: usize) -> bool {
        state.used == 0 || state.used + len <= self.limit
    }

    /// Waits for memory to be freed, or for a client that stalls to make way for this one.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        client: &Arc<Client>,
    ) -> MutexGuard<'a, State> {
        let slowest = state.slowest_but(client);
        let left = slowest.map_or(self.stall, |index| {
            self.stall
                .saturating_sub(state.transfers[index].since.elapsed())
        });
        if let (Some(index), Duration::ZERO) = (slowest, left) {
            let stalled = state.transfers.swap_remove(index).client;
            stalled.disconnect("others wait for the memory that it stalls");
            return state;
        }
        let waited = self.freed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn free(&self, bytes: AlignedBuf) {
        let len = bytes.as_slice().len();
        let mut state = self.state();
        state.used -= len;
        let unneeded = match state.kept_len + len <= MAX_KEPT {
            true => {
                state.kept_len += len;
                state.kept.push(bytes);
                None
            }
            false => Some(bytes),
        };
        self.notify(&state);
        drop(state);
        drop(unneeded);
    }

    /// Wakes those who wait, if there are any.
    fn notify(&self, state: &State) {
        if state.next_number != state.served_number {
            self.freed.notify_all();
        }
    }

    // Nothing can panic between the changes that belong together.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The transfer of another client than this one that has taken longest.
    fn slowest_but(&self, client: &Arc<Client>) -> Option<usize> {
        let transfers = self.transfers.iter().enumerate();
        let others = transfers.filter(|(_, transfer)| !Arc::ptr_eq(&transfer.client, client));
        let slowest = others.min_by_key(|(_, transfer)| transfer.since);
        slowest.map(|(index, _)| index)
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
    fn little_is_kept_of_what_is_not_in_use() {
        let (memory, client) = (Memory::new(256 << 20, Duration::MAX), client());
        let buffers: Vec<_> = (0..8).map(|_| memory.take(5 << 20, &client)).collect();
        assert_eq!(memory.state().used, 64 << 20);
        drop(buffers);
        let state = memory.state();
        assert_eq!((state.used, state.kept_len), (0, MAX_KEPT));
        assert_eq!(state.kept.len(), 2);
    }

    #[test]
    fn what_is_kept_counts() {
        let (memory, client) = (Memory::new(4 << 20, Duration::MAX), client());
        drop([(); 4].map(|()| memory.take(1 << 20, &client)));
        assert_eq!(memory.state().kept_len, 4 << 20);
        let small = memory.take(1, &client);
        assert_eq!(small.len(), MIN_BUFFER);
        assert_eq!(memory.state().kept_len, 0);
    }
}
