use std::sync::Arc;

use rustix::io::Errno;
use verimount_fuse::Shares;
use verimount_sync::Mutex;

/// Counts the open files of each user, which share the available descriptors.
pub(super) struct OpenFiles(Mutex<Shares>);

/// A file that is open or being opened. It is counted until this is dropped.
pub(super) struct OpenFor {
    uid: u32,
    files: Arc<OpenFiles>,
}

impl OpenFiles {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Shares::new(max))))
    }

    /// Counts one more file for a user.
    ///
    /// # Errors
    /// `EMFILE` if the user has used up their share.
    pub(super) fn open_for(self: &Arc<Self>, uid: u32) -> Result<OpenFor, Errno> {
        let mut shares = self.0.lock();
        if shares.take(uid, 1) {
            Ok(OpenFor {
                uid,
                files: Arc::clone(self),
            })
        } else {
            Err(Errno::MFILE)
        }
    }
}

impl Drop for OpenFor {
    fn drop(&mut self) {
        self.files.0.lock().give_back(self.uid, 1);
    }
}
