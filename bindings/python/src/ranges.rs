//! Parts of several files at once.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    iter,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use pyo3::{PyErr, Python, exceptions::PyMemoryError};
use verimount::{Error, File, Image};

use crate::{
    errors::exception,
    pieces::{each, most_threads},
};

/// The most of them that are read at once from what is slow: more than are fetched at once, since some wait for what others
/// fetch.
const MOST_SLOW: usize = 32;

/// A part of a file, as slices of Python say it: from a place to before another one; what is negative counts from the end.
pub(crate) type Range = (PathBuf, Option<i64>, Option<i64>);

/// Files that are opened when the first part of one is read.
struct Files<'a> {
    image: &'a Image,
    /// `None` for what could not be opened.
    opened: BTreeMap<&'a Path, OnceLock<Option<File>>>,
}

/// Why one could not be read.
pub(crate) enum Failure {
    Read(Error),
    /// There is not so much memory.
    Memory,
}

/// Reads all of `ranges`, side by side. An error of one concerns no other one.
pub(crate) fn read_ranges(
    image: &Image,
    ranges: &[Range],
    is_slow: bool,
) -> Vec<Result<Vec<u8>, Failure>> {
    let paths = ranges.iter().map(|(path, ..)| path.as_path());
    let files = Files {
        image,
        opened: paths.zip(iter::repeat_with(OnceLock::new)).collect(),
    };
    let mut read: Vec<_> = ranges.iter().map(|_| Ok(Vec::new())).collect();
    let most = if is_slow { MOST_SLOW } else { most_threads() };
    let tasks = read.iter_mut().zip(ranges);
    let Ok(()) = each(ranges.len(), most, tasks, |(bytes, range)| {
        *bytes = files.read(range);
        Ok::<_, Infallible>(())
    });
    read
}

impl Files<'_> {
    fn read(&self, (path, start, end): &Range) -> Result<Vec<u8>, Failure> {
        let file = self.file(path).map_err(Failure::Read)?;
        let size = file.len();
        let start = start.map_or(0, |place| from_start(place, size));
        let end = end.map_or(size, |place| from_start(place, size));
        let length = usize::try_from(end.saturating_sub(start)).or(Err(Failure::Memory))?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).or(Err(Failure::Memory))?;
        bytes.resize(length, 0);
        file.read_at(&mut bytes, start).map_err(Failure::Read)?;
        Ok(bytes)
    }

    fn file(&self, path: &Path) -> Result<File, Error> {
        let open = || self.image.open_file(path);
        let opened = self.opened.get(path);
        let opened = opened.and_then(|opened| opened.get_or_init(|| open().ok()).clone());
        // Each has an error of its own.
        opened.map_or_else(open, Ok)
    }
}

impl Failure {
    /// As Python knows it.
    pub(crate) fn exception(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Read(error) => exception(py, error),
            Self::Memory => PyMemoryError::new_err(()),
        }
    }
}

/// A place of a slice, at most the end of what has `size` bytes.
fn from_start(place: i64, size: u64) -> u64 {
    match u64::try_from(place) {
        Ok(place) => place.min(size),
        Err(_) => size.saturating_sub(place.unsigned_abs()),
    }
}
