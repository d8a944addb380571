//! Content that Python code reads.

use std::io;

use pyo3::{Borrowed, Py, PyAny, PyResult, Python, types::PyAnyMethods};
use verimount::{ReadAt, ReadError};

/// An object with a `name`, a `size` and a method `read_at(offset, length)`, which returns bytes.
pub(crate) struct PythonSource {
    object: Py<PyAny>,
    name: String,
    size: u64,
}

impl PythonSource {
    pub(crate) fn new(object: &Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            name: object.getattr("name")?.extract()?,
            size: object.getattr("size")?.extract()?,
            object: (**object).clone().unbind(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl ReadAt for PythonSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let len = buf.len();
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > self.size) {
            let size = self.size;
            return Err(ReadError::PastEnd { offset, len, size });
        }
        let read = Python::attach(|py| -> PyResult<bool> {
            let object = self.object.bind(py);
            let read = object.call_method1("read_at", (offset, len))?;
            let bytes: &[u8] = read.extract()?;
            let is_all = bytes.len() == len;
            if is_all {
                buf.copy_from_slice(bytes);
            }
            Ok(is_all)
        });
        if read.map_err(|error| ReadError::io(offset, len)(io::Error::from(error)))? {
            Ok(())
        } else {
            Err(ReadError::Truncated { offset, len })
        }
    }
}
