use std::{io, thread};

use signal_hook::{consts::SIGHUP, iterator::Signals, low_level::emulate_default_handler};
use verimount_fuse::Serving;
use verimount_names::printable;

use crate::{
    Mode,
    place::{HeldPlace, Place},
};

/// A mounted file system that threads answer for.
///
/// Unless it is waited for to its end, it is unmounted.
pub struct Mounted {
    pub(crate) serving: Serving,
    pub(crate) held: HeldPlace,
    pub(crate) mode: Mode,
}

impl Mounted {
    /// What the system allowed.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Waits until it is unmounted, or until one of `signals` asks to end it: then it is taken out
    /// of sight at once, and served until its last open file is closed. A second signal ends the
    /// process. SIGHUP does not, if there is a `reload` to be called instead.
    ///
    /// # Errors
    /// What ended the connection to the kernel, if not an unmount.
    pub fn wait(mut self, signals: Signals, reload: Option<Reload>) -> io::Result<()> {
        let place = self.held.place.clone();
        let handle = signals.handle();
        let watcher = thread::Builder::new().spawn(move || watch(signals, &place, reload))?;
        let result = self.serving.join();
        // The session ends well when the kernel says that there is nothing more to serve.
        self.held.ended = result.is_ok();
        handle.close();
        let _ = watcher.join();
        result
    }
}

/// What is done at SIGHUP.
pub type Reload = Box<dyn FnMut() + Send>;

fn watch(mut signals: Signals, place: &Place, mut reload: Option<Reload>) {
    let mut ending = false;
    for signal in signals.forever() {
        match (signal, &mut reload) {
            (SIGHUP, Some(reload)) => reload(),
            _ if ending => {
                let _ = emulate_default_handler(signal);
            }
            _ => {
                ending = true;
                if let Err(error) = place.leave() {
                    let mount_point = printable(&place.mount_point);
                    tracing::error!(%error, %mount_point, "unmounting");
                }
            }
        }
    }
}
