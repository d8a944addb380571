//! Exclusion.

use std::sync::{self, MutexGuard, PoisonError, TryLockError};

/// Lets one thread at a time have a value.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Puts `value` behind a lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        let value = self.0.into_inner();
        value.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until no other thread has the value, and then has it until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the value until the guard is dropped, without waiting for it: `None` if another thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
