//! The processes that serve mounts, as far as `/proc` tells of them.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{MountEntry, daemon::DaemonEnd, native_name};

/// The device that a mount is served through.
const DEVICE: &str = "/dev/fuse";

/// The most descriptors of a process that are looked at: its user can open any number. The device is among the
/// first.
const MAX_DESCRIPTORS: usize = 4096;

/// How long a killed process is waited for. What it does in the kernel can keep it longer.
const DYING: Duration = Duration::from_secs(10);

impl MountEntry {
    /// The process of its user that serves it; `None` if there is none, or if it cannot be seen from here. The
    /// kernel tells which mount an open device belongs to (Linux 6.18 does).
    pub fn process(&self) -> Option<i32> {
        if self.is_native() {
            return native_name::process(&self.source);
        }
        let connection = self.device.strip_prefix("0:")?;
        let mut processes = fs::read_dir("/proc").ok()?.flatten();
        processes.find_map(|process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            let is_its_users = Some(process.metadata().ok()?.uid()) == self.user;
            (is_its_users && serves(&process.path(), connection)).then_some(pid)
        })
    }

    /// Kills the process that serves it; all who wait for it get errors. Does nothing if there is none.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn kill_process(&self) -> io::Result<()> {
        let process = self.process();
        let Some(end) = process.and_then(DaemonEnd::of) else {
            return Ok(());
        };
        // Asked for after opening: if it is the right process now, it was so then.
        if self.process() == process {
            end.force()?;
            end.wait(DYING);
        }
        Ok(())
    }
}

/// Whether a process has the device open, for the connection with this number.
fn serves(process: &Path, connection: &str) -> bool {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
    let mut descriptors = descriptors.flatten().take(MAX_DESCRIPTORS);
    descriptors.any(|descriptor| {
        let is_device =
            fs::read_link(descriptor.path()).is_ok_and(|path| path == Path::new(DEVICE));
        let info: PathBuf = process.join("fdinfo").join(descriptor.file_name());
        is_device
            && fs::read_to_string(info).is_ok_and(|info| connection_of(&info) == Some(connection))
    })
}

/// The number of the connection in the `fdinfo` of an open device.
fn connection_of(info: &str) -> Option<&str> {
    let number = info
        .lines()
        .find_map(|line| line.strip_prefix("fuse_connection:"));
    number.map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_of_an_open_device() {
        let info = "pos:\t0\nflags:\t02100002\nino:\t90\nfuse_connection:\t39\n";
        assert_eq!(connection_of(info), Some("39"));
        assert_eq!(connection_of("pos:\t0\nfuse_connections:\t39\n"), None);
    }
}
