use std::io;

use verimount_fuse::{AwakeLimit, FileSystem, Session};

use crate::{Mode, MountError, Mounted, own_mount::HeldMount};

/// A mounted file system after INIT negotiation, which no thread answers for yet.
///
/// All descriptors needed for answering are open, and no thread has been started: privileges that the
/// calling thread drops now are dropped for all threads that answer. Dropping it unmounts it.
pub struct Attached<F: FileSystem> {
    // Dropped first, so that the mount is dead when it is removed.
    pub(crate) session: Session<F>,
    pub(crate) awake: Option<AwakeLimit>,
    pub(crate) held: HeldMount,
    pub(crate) large_read_ahead: bool,
}

impl<F: FileSystem> Attached<F> {
    /// Starts the threads that answer; when this returns, the mount can be used.
    ///
    /// # Errors
    /// [`MountError::Awake`] or [`MountError::Refused`] if no thread can be started.
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
            path: held.own.mount_point.clone(),
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
