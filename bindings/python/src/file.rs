//! A verified file, read at any place.

use pyo3::{
    Bound, PyAny, PyResult, Python, pyclass, pymethods,
    types::{PyAnyMethods, PyBytes, PySlice},
};
use verimount::{File as VerifiedFile, ReadAt};
use verimount_python_memory::{NewPiece, NewPieces, bytes_in_pieces};

use crate::{
    errors::OrRaise,
    handle::Handle,
    interrupt::ask,
    pieces::{PIECE, each, most_threads},
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

    /// Has storage on this machine fetch what a large read of `length` bytes from `offset` on will need first, while memory
    /// is made for it or what comes before is hashed.
    fn announce(&self, py: Python<'_>, offset: u64, length: usize) -> PyResult<()> {
        let file = self.file.get()?;
        if !self.is_slow && length > PIECE {
            py.detach(|| file.will_need(offset, length.min(SPAN) as u64));
        }
        Ok(())
    }

    /// Fills pieces with the bytes from `offset` on, which the file must have. The first of them were announced.
    fn fill(&self, py: Python<'_>, pieces: &mut NewPieces<'_>, offset: u64) -> PyResult<()> {
        let file = self.file.get()?;
        let mut pieces = pieces.zip((offset..).step_by(PIECE)).peekable();
        while pieces.peek().is_some() {
            let span: Vec<_> = pieces.by_ref().take(SPAN / PIECE).collect();
            if let Some((_, next)) = pieces.peek() {
                self.announce(py, *next, SPAN)?;
            }
            if self.is_slow {
                fill_interruptibly(py, file, span)?;
            } else {
                py.detach(|| {
                    each(
                        span.len(),
                        most_threads(),
                        span.into_iter(),
                        |(piece, start)| file.read_at(piece.zeroed(), start).map(drop),
                    )
                })
                .or_raise(py)?;
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
        let bytes = self.read(view.py(), offset, len as u64)?;
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

    /// Whether reads may wait long.
    #[getter]
    fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// At most `length` bytes from `offset` on; fewer only where the file ends.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let length = self.existing(offset, length)?;
        self.announce(py, offset, length)?;
        bytes_in_pieces(py, length, PIECE, |pieces| self.fill(py, pieces, offset))
    }

    /// Fills a memoryview of bytes with those from `offset` on, as far as the file has them; returns how many. Nothing is
    /// copied there that was not verified before.
    fn read_into(&self, py: Python<'_>, view: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let length = self.existing(offset, view.len()? as u64)?;
        self.announce(py, offset, length)?;
        for span in (0..length).step_by(SPAN) {
            let len = SPAN.min(length - span);
            self.announce(py, offset + (span + len) as u64, length - span - len)?;
            if self.is_slow {
                self.copy(view, (span, len), offset + span as u64)?;
                continue;
            }
            // What is copied is in a processor's cache.
            let pieces = (span..span + len).step_by(PIECE);
            let target = view.clone().unbind();
            py.detach(|| {
                each(len.div_ceil(PIECE), most_threads(), pieces, |start| {
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

/// Fills pieces that follow each other, and does not wait for storage after Ctrl-C.
fn fill_interruptibly(
    py: Python<'_>,
    file: &VerifiedFile,
    span: Vec<(NewPiece<'_>, u64)>,
) -> PyResult<()> {
    let Some((_, offset)) = span.first() else {
        return Ok(());
    };
    let len = span.iter().map(|(piece, _)| piece.len()).sum();
    let (file, offset) = (file.clone(), *offset);
    let bytes = ask(py, true, move || {
        let mut bytes = vec![0; len];
        let count = len.div_ceil(PIECE);
        let pieces = bytes.chunks_mut(PIECE).zip((offset..).step_by(PIECE));
        each(count, most_threads(), pieces, |(piece, start)| {
            file.read_at(piece, start).map(drop)
        })?;
        Ok(bytes)
    })?;
    for ((piece, _), part) in span.into_iter().zip(bytes.chunks(PIECE)) {
        piece.zeroed().copy_from_slice(part);
    }
    Ok(())
}
