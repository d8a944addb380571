//! Exclusion of writers only.

use std::sync::{self, PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// Lets many threads read a value, or one change it.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Puts `value` behind a lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread changes the value, and then reads it until the guard is dropped.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let guard = self.0.read();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread has the value, and then has it until the guard is dropped.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let guard = self.0.write();
        guard.unwrap_or_else(PoisonError::into_inner)
    }
}
