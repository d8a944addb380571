use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use verimount_fuse::Shares;

/// How many files are open for each user, of as many as there are descriptors for.
pub(super) struct OpenFiles(Mutex<Shares>);

/// A file that is open, or about to be, for as long as this lives.
pub(super) struct OpenFor {
    uid: u32,
    files: Arc<OpenFiles>,
}

impl OpenFiles {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Shares::new(max))))
    }

    /// Counts one more.
    ///
    /// # Errors
    /// `EMFILE` if the user has their share open.
    pub(super) fn open_for(self: &Arc<Self>, uid: u32) -> Result<OpenFor, Errno> {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shares.take(uid, 1) {
            true => Ok(OpenFor {
                uid,
                files: Arc::clone(self),
            }),
            false => Err(Errno::MFILE),
        }
    }
}

impl Drop for OpenFor {
    fn drop(&mut self) {
        let mut shares = self.files.0.lock().unwrap_or_else(PoisonError::into_inner);
        shares.give_back(self.uid, 1);
    }
}
