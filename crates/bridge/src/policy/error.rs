use std::path::{Path, PathBuf};

use thiserror::Error;
use verimount_names::printable;

use super::document::line_of;

/// An error in a policy's text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}:{line}:{column}: {message}", printable(file))]
pub struct PolicyError {
    file: PathBuf,
    /// The line of the error, counted from 1.
    pub line: usize,
    /// The character within the line, counted from 1.
    pub column: usize,
    message: String,
}

/// An error, and its offset in the text.
#[derive(Debug)]
pub(super) struct Defect {
    pub(super) at: usize,
    pub(super) message: String,
}

impl PolicyError {
    pub(super) fn new(defect: Defect, text: &str, file: &Path) -> Self {
        let before = text.get(..defect.at).unwrap_or(text);
        let column = before
            .rsplit('\n')
            .next()
            .map_or(0, |line| line.chars().count());
        Self {
            file: file.to_owned(),
            line: line_of(text, defect.at),
            column: column.saturating_add(1),
            message: defect.message,
        }
    }
}
