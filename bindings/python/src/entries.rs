//! Files of an image, one after the other.

use std::{ffi::OsString, mem, sync::Arc};

use pyo3::{PyResult, Python, pyclass, pymethods};
use verimount::{DirEntry, Error};
use verimount_sync::Mutex;

use crate::{
    handle::Handle,
    interrupt::ask,
    metadata::{Attributes, attributes},
};

/// How many are found at a time.
const BATCH: usize = 256;

type Found = Box<dyn Iterator<Item = Result<DirEntry, Error>> + Send>;

/// The entries of a directory, or all that is below it.
#[pyclass(frozen, module = "verimount._verimount")]
pub(crate) struct Entries {
    rest: Handle<Arc<Mutex<Rest>>>,
    is_slow: bool,
}

struct Rest {
    found: Found,
    /// What comes after the last ones that were handed out.
    failed: Option<Error>,
}

impl Entries {
    pub(crate) fn new(
        found: impl Iterator<Item = Result<DirEntry, Error>> + Send + 'static,
        is_slow: bool,
    ) -> Self {
        let found: Found = Box::new(found);
        let rest = Rest {
            found,
            failed: None,
        };
        Self {
            rest: Handle::new(Arc::new(Mutex::new(rest))),
            is_slow,
        }
    }
}

#[pymethods]
impl Entries {
    /// Some more, each with its path and attributes; none if there are no more.
    fn more(&self, py: Python<'_>) -> PyResult<Vec<(OsString, Attributes)>> {
        let rest = self.rest.get()?.clone();
        ask(py, self.is_slow, move || rest.lock().more())
    }
}

impl Rest {
    fn more(&mut self) -> Result<Vec<(OsString, Attributes)>, Error> {
        if let Some(error) = mem::take(&mut self.failed) {
            return Err(error);
        }
        let mut batch = Vec::new();
        for entry in self.found.by_ref().take(BATCH) {
            match entry {
                Ok(entry) => batch.push((entry.path().into(), attributes(entry.metadata()))),
                Err(error) if batch.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        Ok(batch)
    }
}
