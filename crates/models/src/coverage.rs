use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    path::{Path, PathBuf},
};

use thiserror::Error as ThisError;
use verimount_names::printable;

use crate::Expected;

/// Compares the files that there are with those that are signed: each must be in both.
#[derive(Debug)]
pub struct Coverage<'m> {
    signed: &'m BTreeMap<PathBuf, Expected>,
    missing: BTreeSet<&'m Path>,
}

/// A file is in the model or in the signature, but not in both.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Uncovered {
    /// There is a file that is not signed.
    #[error("{}: the model signature does not have this file", printable(.0))]
    File(PathBuf),
    /// There is an empty file, and the signature is of shards.
    #[error("{}: the model signature is of shards, of which an empty file has none", printable(.0))]
    Empty(PathBuf),
    /// There is a directory in which no file is signed.
    #[error("{}: the model signature has no file in this directory", printable(.0))]
    Directory(PathBuf),
    /// There is something else than a file or directory, which no signature covers.
    #[error("{}: no model signature covers a {what}", printable(path))]
    Other {
        /// Its path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// There is no file for this one that is signed.
    #[error("{}: the model signature has this file, but the model has not", printable(.0))]
    Missing(PathBuf),
    /// A file has another size than the one that is signed.
    #[error("{}: it has {found} bytes instead of {signed}", printable(path))]
    Size {
        /// Its path.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
        /// The size of what is signed.
        signed: u64,
    },
}

impl<'m> Coverage<'m> {
    /// Of these files.
    pub fn new(signed: &'m BTreeMap<PathBuf, Expected>) -> Self {
        Self {
            signed,
            missing: signed.keys().map(PathBuf::as_path).collect(),
        }
    }

    /// What the regular file with this path and size must be.
    ///
    /// # Errors
    /// [`Uncovered`], if it is not signed.
    pub fn file(&mut self, path: &Path, size: u64) -> Result<&'m Expected, Uncovered> {
        let Some(expected) = self.signed.get(path) else {
            let is_of_shards = || self.signed.values().any(|file| file.size().is_some());
            return Err(if size == 0 && is_of_shards() {
                Uncovered::Empty(path.into())
            } else {
                Uncovered::File(path.into())
            });
        };
        match expected.size() {
            Some(signed) if signed != size => Err(Uncovered::Size {
                path: path.into(),
                found: size,
                signed,
            }),
            _ => {
                self.missing.remove(path);
                Ok(expected)
            }
        }
    }

    /// There is a directory with this path.
    ///
    /// # Errors
    /// [`Uncovered::Directory`], if no file in it is signed.
    pub fn directory(&self, path: &Path) -> Result<(), Uncovered> {
        let behind = (Bound::Excluded(path), Bound::Unbounded);
        let next = self.signed.range::<Path, _>(behind).next();
        if next.is_some_and(|(next, _)| next.starts_with(path)) {
            Ok(())
        } else {
            Err(Uncovered::Directory(path.into()))
        }
    }

    /// The error for something else than a file or directory.
    pub fn other(path: PathBuf, what: &'static str) -> Uncovered {
        Uncovered::Other { path, what }
    }

    /// Ends the comparison.
    ///
    /// # Errors
    /// [`Uncovered::Missing`] for the first file that is signed, and is not there.
    pub fn finish(self) -> Result<(), Uncovered> {
        match self.missing.first() {
            None => Ok(()),
            Some(missing) => Err(Uncovered::Missing(missing.into())),
        }
    }
}
