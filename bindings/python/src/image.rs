//! An image, read by path.

use std::{ffi::OsString, path::PathBuf};

use pyo3::{Bound, PyAny, PyResult, Python, pyclass, pymethods, types::PyBytes};
use verimount::{Error, Image as VerifiedImage};

use crate::{
    entries::Entries,
    file::File,
    handle::Handle,
    interrupt::ask,
    metadata::{Attributes, attributes},
    ranges::{Range, read_ranges},
};

/// An image of a directory tree.
#[pyclass(frozen, module = "verimount._verimount")]
pub(crate) struct Image {
    image: Handle<VerifiedImage>,
    is_slow: bool,
}

impl Image {
    pub(crate) fn new(image: VerifiedImage, is_slow: bool) -> Self {
        Self {
            image: Handle::new(image),
            is_slow,
        }
    }

    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(VerifiedImage) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let image = self.image.get()?.clone();
        ask(py, self.is_slow, move || question(image))
    }
}

#[pymethods]
impl Image {
    /// Opens a regular file.
    fn open(&self, py: Python<'_>, path: PathBuf) -> PyResult<File> {
        let file = self.ask(py, |image| image.open_file(path))?;
        Ok(File::new(file, self.is_slow))
    }

    /// Parts of regular files, read side by side: the bytes of each, or the exception of what went wrong with it.
    fn read_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<Range>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let is_slow = self.is_slow;
        let read = self.ask(py, move |image| Ok(read_ranges(&image, &ranges, is_slow)))?;
        let shown = read.into_iter().map(|read| match read {
            Ok(bytes) => PyBytes::new(py, &bytes).into_any(),
            Err(failure) => failure
                .exception(py)
                .into_value(py)
                .into_bound(py)
                .into_any(),
        });
        Ok(shown.collect())
    }

    /// The entries of a directory.
    fn entries(&self, py: Python<'_>, path: PathBuf) -> PyResult<Entries> {
        let entries = self.ask(py, |image| image.read_dir(path))?;
        Ok(Entries::new(entries, self.is_slow))
    }

    /// What is at a path, and everything below it.
    fn walk(&self, py: Python<'_>, path: PathBuf) -> PyResult<Entries> {
        let entries = self.ask(py, |image| image.walk(path))?;
        Ok(Entries::new(entries, self.is_slow))
    }

    /// The attributes of a file.
    fn attributes(&self, py: Python<'_>, path: PathBuf, follow: bool) -> PyResult<Attributes> {
        let metadata = self.ask(py, move |image| {
            if follow {
                image.metadata(path)
            } else {
                image.symlink_metadata(path)
            }
        })?;
        Ok(attributes(&metadata))
    }

    /// The target of a symbolic link.
    fn read_link(&self, py: Python<'_>, path: PathBuf) -> PyResult<OsString> {
        Ok(self.ask(py, |image| image.read_link(path))?.into())
    }

    /// The names of a file's extended attributes.
    fn xattr_names(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<OsString>> {
        self.ask(py, |image| image.xattr_names(path))
    }

    /// The value of an extended attribute, if the file has it.
    fn xattr<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        name: OsString,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.ask(py, |image| image.xattr(path, name))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }
}
