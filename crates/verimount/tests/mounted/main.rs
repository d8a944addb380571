//! Contents that this process has mounted.

mod flips;
mod prelude;

use std::num::NonZeroUsize;

use verimount::{
    MountOptions,
    mounts::{EndSignals, Status, ask_mount, unmount},
};

use crate::prelude::*;

/// A mounted content, unmounted at last.
struct Mounted {
    directory: PathBuf,
    serving: Option<thread::JoinHandle<io::Result<()>>>,
}

impl Mounted {
    fn new(source: &Path, directory: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let content = Content::open(source, options)?.read_ahead();
        let threads = NonZeroUsize::new(2).unwrap();
        let mount = content.mount(directory, &MountOptions::new().threads(threads))?;
        let signals = EndSignals::none().unwrap();
        Ok(Self {
            directory: directory.to_owned(),
            serving: Some(thread::spawn(move || mount.wait_for(signals))),
        })
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn status(&self) -> Status {
        ask_mount(&self.directory).unwrap()
    }

    /// Unmounts it, and waits for its end. It can be busy although its files are closed: a process that
    /// another test starts has copies of all open descriptors for a moment.
    fn unmount(mut self) {
        eventually("it is not busy", || unmount(&self.directory, false).is_ok());
        self.serving.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.serving.is_some() {
            // The test has failed, and may still have files open.
            let _ = unmount(&self.directory, true);
        }
    }
}

/// Some tests again, by an ordinary user.
#[test]
fn by_nobody() {
    let names = [
        "flips::fresh::random_bytes_of_a_small_image",
        "flips::fresh::every_byte_of_a_signature",
    ];
    pass_as_nobody(&names, |_, _| ());
}
