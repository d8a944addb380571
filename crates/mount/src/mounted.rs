use std::{fmt, io, thread};

use verimount_fuse::Serving;
use verimount_names::printable;
use verimount_sys::end_by;

use crate::{
    EndSignals, Mode,
    native::StatusSocket,
    own_mount::{HeldMount, Left, OwnMount},
};

/// A mounted file system that is being served.
///
/// Dropping it without [waiting](Self::wait) for its end unmounts it.
pub struct Mounted {
    pub(crate) serving: Serving,
    pub(crate) held: HeldMount,
    pub(crate) mode: Mode,
    /// Of a native mount.
    pub(crate) _status: Option<StatusSocket>,
}

impl fmt::Debug for Mounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mounted").field(&self.mode).finish()
    }
}

impl Mounted {
    /// How it is served.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Waits until it is unmounted. The first of `signals` detaches it (a lazy unmount): it is served
    /// until its last open file is closed. A second signal ends the process.
    ///
    /// # Errors
    /// Why the connection to the kernel ended, if not by an unmount.
    pub fn wait(mut self, signals: EndSignals) -> io::Result<()> {
        let own = self.held.own.clone();
        let handle = signals.handle();
        let watcher = thread::Builder::new().spawn(move || watch(signals, &own))?;
        let result = self.serving.join();
        // No error means that the kernel has ended the connection.
        self.held.ended = result.is_ok();
        handle.close();
        let _ = watcher.join();
        result
    }
}

fn watch(mut signals: EndSignals, own: &OwnMount) {
    let mut left = None;
    while let Some(signal) = signals.wait() {
        if left.is_some() {
            let _ = end_by(signal);
        }
        left = Some(own.leave().unwrap_or_else(|error| {
            let mount_point = printable(&own.mount_point);
            tracing::error!(%error, %mount_point, "unmounting");
            Left::default()
        }));
    }
}
