//! Errors of the library as exceptions.

use std::{fmt, io, path::Path};

use pyo3::{
    Bound, PyErr, PyResult, Python,
    exceptions::{PyRuntimeError, PyValueError},
    types::PyAnyMethods,
};
use verimount::{Error, ErrorKind};
use verimount_names::printable;

/// The module that has a class for each kind.
const MODULE: &str = "verimount._errors";

/// The exception of the class for its kind.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let made = make(py, error);
    made.map_or_else(|failed| failed, PyErr::from_value)
}

fn make<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, pyo3::PyAny>> {
    let mismatch = error.mismatch().map(|mismatch| {
        (
            mismatch.place.to_string(),
            mismatch.offset,
            (mismatch.covers.start, mismatch.covers.end),
            format!("{:?}", mismatch.expected),
            format!("{:?}", mismatch.actual),
        )
    });
    py.import(MODULE)?.getattr("from_native")?.call1((
        format!("{:?}", error.kind()),
        error.errno(),
        error.to_string(),
        error.location().map(ToString::to_string),
        error.path().map(Path::as_os_str),
        mismatch,
    ))
}

/// The exception for what the system refused or failed of a file that an argument names.
pub(crate) fn of_system(py: Python<'_>, error: &io::Error, errno: i32, path: &Path) -> PyErr {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ => ErrorKind::Io,
    };
    let make = || {
        let text = format!("{}: {error}", printable(path));
        let arguments = (
            format!("{kind:?}"),
            errno,
            text,
            path.as_os_str(),
            None::<&str>,
            None::<()>,
        );
        py.import(MODULE)?.getattr("from_native")?.call1(arguments)
    };
    make().map_or_else(|failed| failed, PyErr::from_value)
}

/// An argument that cannot be.
pub(crate) fn invalid(reason: impl fmt::Display) -> PyErr {
    PyValueError::new_err(reason.to_string())
}

/// A result of the library as one of Python.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

/// A defect of ours.
pub(crate) fn panicked() -> PyErr {
    PyRuntimeError::new_err("verimount has panicked: please report what it wrote to standard error")
}
