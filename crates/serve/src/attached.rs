use std::io;

use verimount_fuse::{AwakeLimit, FileSystem, Session};

use crate::{Mode, MountError, Mounted, place::HeldPlace};

/// A mounted file system that the kernel has agreed with and nobody answers for yet.
///
/// All descriptors that answering takes are open, and no thread has been started for it: rights that
/// the calling thread gives up now are given up for all threads that answer. Dropped, it is unmounted.
pub struct Attached<F: FileSystem> {
    // Dropped first: the mount is dead when it is taken away.
    pub(crate) session: Session<F>,
    pub(crate) awake: Option<AwakeLimit>,
    pub(crate) held: HeldPlace,
    pub(crate) large_read_ahead: bool,
}

impl<F: FileSystem> Attached<F> {
    /// Starts the threads that answer; when this returns, it can be used.
    ///
    /// # Errors
    /// [`MountError::Awake`] and [`MountError::Refused`] where there are no more threads.
    pub fn start(self) -> Result<Mounted, MountError> {
        let Self {
            session,
            awake,
            held,
            large_read_ahead,
        } = self;
        let awake = awake.map(AwakeLimit::keep).transpose();
        let awake = awake.map_err(MountError::Awake)?;
        let refused = |reason: io::Error| MountError::Refused {
            path: held.place.mount_point.clone(),
            reason,
        };
        let serving = session.start(awake).map_err(refused)?;
        let mode = Mode {
            large_read_ahead,
            transport: serving.transport(),
        };
        Ok(Mounted {
            serving,
            held,
            mode,
        })
    }
}
