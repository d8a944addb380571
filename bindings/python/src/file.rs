//! A verified file, read at any place.

use pyo3::{
    Bound, PyAny, PyResult, Python, pyclass, pymethods,
    types::{PyAnyMethods, PyBytes, PySlice},
};
use verimount::{Error, File as VerifiedFile};

use crate::{
    errors::OrRaise,
    handle::Handle,
    interrupt::ask,
    pieces::{PIECE, each},
};

/// How much is read until it is looked for Ctrl-C, in bytes.
const SPAN: usize = 32 << 20;

/// A verified file.
#[pyclass(frozen, module = "verimount._verimount")]
pub(crate) struct File {
    file: Handle<VerifiedFile>,
    is_slow: bool,
}

impl File {
    pub(crate) fn new(file: VerifiedFile, is_slow: bool) -> Self {
        Self {
            file: Handle::new(file),
            is_slow,
        }
    }

    /// Fills `buf` with the bytes from `offset` on, which the file must have.
    fn fill(&self, py: Python<'_>, buf: &mut [u8], offset: u64) -> PyResult<()> {
        let file = self.file.get()?;
        for (span, start) in buf.chunks_mut(SPAN).zip((offset..).step_by(SPAN)) {
            if self.is_slow {
                let (file, len) = (file.clone(), span.len());
                let bytes = ask(py, true, move || {
                    let mut bytes = vec![0; len];
                    fill(&file, &mut bytes, start).map(|()| bytes)
                })?;
                span.copy_from_slice(&bytes);
            } else {
                py.detach(|| fill(file, span, start)).or_raise(py)?;
            }
            py.check_signals()?;
        }
        Ok(())
    }

    /// Reads `len` bytes at `offset` into a part of `view` from `start` on.
    fn copy(
        &self,
        view: &Bound<'_, PyAny>,
        (start, len): (usize, usize),
        offset: u64,
    ) -> PyResult<()> {
        let bytes = PyBytes::new_with(view.py(), len, |buf| self.fill(view.py(), buf, offset))?;
        let part = PySlice::new(view.py(), start as isize, (start + len) as isize, 1);
        view.set_item(part, bytes)
    }

    /// How many of `length` bytes from `offset` on the file has.
    fn existing(&self, offset: u64, length: u64) -> PyResult<usize> {
        let rest = self.file.get()?.len().saturating_sub(offset);
        Ok(usize::try_from(rest.min(length)).unwrap_or(usize::MAX))
    }
}

#[pymethods]
impl File {
    /// How many bytes it has.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.file.get()?.len())
    }

    /// At most `length` bytes from `offset` on; fewer only where the file ends.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let length = self.existing(offset, length)?;
        PyBytes::new_with(py, length, |buf| self.fill(py, buf, offset))
    }

    /// Fills a memoryview of bytes with those from `offset` on, as far as the file has them; returns how many. Nothing is
    /// copied there that was not verified before.
    fn read_into(&self, py: Python<'_>, view: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let length = self.existing(offset, view.len()? as u64)?;
        for span in (0..length).step_by(SPAN) {
            let len = SPAN.min(length - span);
            if self.is_slow {
                self.copy(view, (span, len), offset + span as u64)?;
                continue;
            }
            // What is copied is in a processor's cache.
            let pieces = (span..span + len).step_by(PIECE);
            let target = view.clone().unbind();
            py.detach(|| {
                each(len.div_ceil(PIECE), pieces, |start| {
                    let len = PIECE.min(length - start);
                    let from = offset + start as u64;
                    Python::attach(|py| self.copy(target.bind(py), (start, len), from))
                })
            })?;
            py.check_signals()?;
        }
        Ok(length)
    }
}

/// Fills `buf` with the bytes from `offset` on, which the file must have.
fn fill(file: &VerifiedFile, buf: &mut [u8], offset: u64) -> Result<(), Error> {
    let count = buf.len().div_ceil(PIECE);
    let pieces = buf.chunks_mut(PIECE).zip((offset..).step_by(PIECE));
    each(count, pieces, |(piece, start)| {
        file.read_at(piece, start).map(drop)
    })
}
