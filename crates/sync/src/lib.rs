#![doc = include_str!("../README.md")]

mod condvar;
mod mutex;
mod rw_lock;

pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

pub use self::{condvar::Condvar, mutex::Mutex, rw_lock::RwLock};
