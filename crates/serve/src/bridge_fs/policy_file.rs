use std::path::Path;

use verimount_bridge::{PolicyStatus, ReloadFailure};
use verimount_names::{one_line, printable};
use verimount_sync::Mutex;

use crate::{
    status::{end_of, now},
    verified_tree::MAX_TEXT,
};

/// The file from which a bridge's policy is read, and how that went.
pub struct PolicyFile(Mutex<PolicyStatus>);

impl PolicyFile {
    /// A policy was just read from this file, which should be given by its absolute path.
    pub fn loaded(path: &Path) -> Self {
        Self(Mutex::new(PolicyStatus {
            file: end_of(printable(path).to_string(), MAX_TEXT),
            loaded: now(),
            failure: None,
        }))
    }

    pub(crate) fn status(&self) -> PolicyStatus {
        self.0.lock().clone()
    }

    /// Notes that it was read again.
    pub(crate) fn reloaded(&self) {
        let mut status = self.0.lock();
        status.loaded = now();
        status.failure = None;
    }

    /// Notes that it could not be read again.
    pub(crate) fn failed(&self, reason: &str) {
        self.0.lock().failure = Some(ReloadFailure {
            at: now(),
            reason: end_of(one_line(reason).to_string(), MAX_TEXT),
        });
    }
}
