//! Waiting for a change.

use std::{
    sync::{self, MutexGuard, PoisonError},
    time::Duration,
};

/// Lets threads wait for a change of what a mutex is for. They give up the mutex meanwhile.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// One that no thread waits for.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Waits for a notification. It may return without one.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let guard = self.0.wait(guard);
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a notification, but not longer than `timeout`. It may return without one.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout(guard, timeout);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits as long as the `condition` holds.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let guard = self.0.wait_while(guard, condition);
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as the `condition` holds, but not longer than `timeout`.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout_while(guard, timeout, condition);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one of the waiting threads.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
