//! Whether the kernel offers io_uring to FUSE: one switch for all mounts to come.

use std::fs;

/// There since Linux 6.14; only root may write it.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The switch, put back to what it was when this is dropped.
#[derive(Debug)]
pub(crate) struct Switch {
    before: String,
}

impl Switch {
    /// `None` where there is no such switch, or it may not be touched.
    pub(crate) fn turn(on: bool) -> Option<Self> {
        let before = fs::read_to_string(SWITCH).ok()?;
        fs::write(SWITCH, if on { "Y" } else { "N" }).ok()?;
        Some(Self { before })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SWITCH, &self.before) {
            eprintln!("{SWITCH} is not as it was: {error}");
        }
    }
}
