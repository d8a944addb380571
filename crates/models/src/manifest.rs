use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::Expected;

/// What a signature says of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    model: String,
    subject: Subject,
    ignored: Vec<PathBuf>,
}

/// What was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The files below a directory, by their paths.
    Directory(BTreeMap<PathBuf, Expected>),
    /// One file, of any name.
    File(Expected),
}

impl Manifest {
    /// Reads a statement of in-toto: what [`Bundle::verify`](crate::Bundle::verify) gives, but without any signature.
    ///
    /// # Errors
    /// [`Error::NotABundle`](crate::Error::NotABundle), [`Error::Unsupported`](crate::Error::Unsupported) and
    /// [`Error::Inconsistent`](crate::Error::Inconsistent).
    pub fn of_statement(text: &[u8]) -> Result<Self, crate::Error> {
        crate::statement::read(text)
    }

    pub(crate) fn new(model: String, subject: Subject, ignored: Vec<PathBuf>) -> Self {
        Self {
            model,
            subject,
            ignored,
        }
    }

    /// What the signer called the model. It may be called otherwise elsewhere.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// What was signed.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The paths below the model that the signature says nothing of, nor of what is below them.
    pub fn ignored(&self) -> impl Iterator<Item = &Path> {
        self.ignored.iter().map(PathBuf::as_path)
    }

    /// Number of files.
    pub fn count(&self) -> usize {
        match &self.subject {
            Subject::Directory(files) => files.len(),
            Subject::File(_) => 1,
        }
    }
}
