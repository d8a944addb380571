//! The kernel's setting whether it offers io_uring to FUSE, for all future mounts.

use std::fs;

/// It exists since Linux 6.14; only root may write it.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The setting, restored when this is dropped.
#[derive(Debug)]
pub(crate) struct Switch {
    before: String,
}

impl Switch {
    /// `None` if the setting does not exist or may not be changed.
    pub(crate) fn turn(on: bool) -> Option<Self> {
        let before = fs::read_to_string(SWITCH).ok()?;
        fs::write(SWITCH, if on { "Y" } else { "N" }).ok()?;
        Some(Self { before })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SWITCH, &self.before) {
            eprintln!("cannot restore {SWITCH}: {error}");
        }
    }
}
