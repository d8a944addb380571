//! What takes the place of `far` without the feature `remote`: all content is on this machine.

use std::path::PathBuf;

use verimount_helper::Task;

use crate::doctor::Diagnosis;

/// No helper is needed to reach nothing.
pub(crate) fn helper_tasks(_: Vec<String>) -> Vec<Task> {
    Vec::new()
}

/// There are none.
pub(crate) fn own_files() -> Vec<PathBuf> {
    Vec::new()
}

/// Nothing is fetched that needs any.
pub(crate) fn certificates() -> Option<Diagnosis> {
    None
}
