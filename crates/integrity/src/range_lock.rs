use std::{collections::BTreeMap, ops::Range};

use verimount_sync::{Condvar, Mutex};

/// Serializes requests that overlap, and lets all others run concurrently.
///
/// A request waits only for earlier requests that conflict with it, so none starves.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks {
    requests: Mutex<Requests>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Requests {
    /// Requests that hold or await their lock, in order of arrival.
    queue: BTreeMap<u64, Request>,
    next_id: u64,
}

#[derive(Debug)]
struct Request {
    range: Range<u64>,
    access: Access,
}

/// The access mode of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Shared with other readers.
    Shared,
    /// Excludes all others: for writes.
    Exclusive,
}

/// A locked range. Dropping it unlocks the range.
#[derive(Debug)]
pub(crate) struct RangeGuard<'a> {
    locks: &'a RangeLocks,
    id: u64,
}

impl RangeLocks {
    /// Waits until no earlier request conflicts with this one.
    pub(crate) fn lock(&self, range: Range<u64>, access: Access) -> RangeGuard<'_> {
        let mut requests = self.requests.lock();
        let id = requests.next_id;
        requests.next_id += 1;
        requests.queue.insert(id, Request { range, access });
        while requests.must_wait(id) {
            requests = self.released.wait(requests);
        }
        RangeGuard { locks: self, id }
    }
}

impl Requests {
    fn must_wait(&self, id: u64) -> bool {
        let own = &self.queue[&id];
        let mut before = self.queue.range(..id);
        before.any(|(_, request)| request.conflicts_with(own))
    }
}

impl Request {
    fn conflicts_with(&self, other: &Self) -> bool {
        let is_shared = self.access == Access::Shared && other.access == Access::Shared;
        let overlaps = self.range.start < other.range.end && other.range.start < self.range.end;
        overlaps && !is_shared
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let mut requests = self.locks.requests.lock();
        requests.queue.remove(&self.id);
        drop(requests);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicI64, Ordering::SeqCst},
        thread,
    };

    use super::*;

    #[test]
    fn disjoint_requests_are_not_ordered() {
        let locks = RangeLocks::default();
        let _first = locks.lock(0..10, Access::Exclusive);
        let _second = locks.lock(10..20, Access::Exclusive);
        let _third = locks.lock(20..30, Access::Shared);
        let _fourth = locks.lock(20..30, Access::Shared);
    }

    /// Each thread adds 1 to each number of its range while it reads, and a large weight while it
    /// writes. The previous value shows which other threads hold the range.
    #[test]
    fn overlapping_requests_exclude_one_another() {
        const WRITING: i64 = 1000;
        let locks = RangeLocks::default();
        let users: Vec<AtomicI64> = (0..64).map(|_| AtomicI64::new(0)).collect();
        thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (locks, users) = (&locks, &users);
                scope.spawn(move || {
                    for round in 0..2000_u64 {
                        let start = (thread * 7 + round * 13) % 56;
                        let range = start..start + 1 + round % 8;
                        let (access, weight) = match (round + thread) % 3 {
                            0 => (Access::Exclusive, WRITING),
                            _ => (Access::Shared, 1),
                        };
                        let _guard = locks.lock(range.clone(), access);
                        let own = &users[range.start as usize..range.end as usize];
                        for user in own {
                            let before = user.fetch_add(weight, SeqCst);
                            assert!(before < if weight == WRITING { 1 } else { WRITING });
                        }
                        thread::yield_now();
                        for user in own {
                            user.fetch_sub(weight, SeqCst);
                        }
                    }
                });
            }
        });
        assert!(locks.requests.lock().queue.is_empty());
    }
}
