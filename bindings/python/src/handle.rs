//! What a forked child has of its parent.

use std::mem;

use pyo3::{PyErr, PyResult, exceptions::PyRuntimeError};
use verimount_sys::forks;

/// Something of this process. In a child its locks may be held by threads that do not exist there, so there it is neither
/// used nor dropped: what it occupies is the price.
pub(crate) struct Handle<T> {
    value: Option<T>,
    forks: u32,
}

impl<T> Handle<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Some(value),
            forks: forks(),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// `RuntimeError` in a child. The Python code opens it anew before that.
    pub(crate) fn get(&self) -> PyResult<&T> {
        let value = self.value.as_ref();
        value
            .filter(|_| self.is_of_this_process())
            .ok_or_else(inherited)
    }

    fn is_of_this_process(&self) -> bool {
        self.forks == forks()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            mem::forget(self.value.take());
        }
    }
}

fn inherited() -> PyErr {
    PyRuntimeError::new_err("it was opened before this process was forked")
}
