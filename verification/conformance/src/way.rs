//! The ways to use a directory: directly, and through bridges with different options.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use verimount_support::{command, mount_point::MountPoint};

use crate::io_uring::Switch;

/// A bridge over a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// Its options.
    options: &'static [&'static str],
    /// Whether the kernel offers io_uring to it.
    io_uring: bool,
}

/// Each covers what the others do not: files passed through, and relayed files whose pages are kept for a
/// while or without limit.
const OPTIONS: [&[&str]; 4] = [
    &["--passthrough", "auto"],
    &["--passthrough", "never"],
    &["--passthrough", "auto", "--cache", "exclusive"],
    &["--passthrough", "never", "--cache", "exclusive"],
];

impl Way {
    /// All ways; those over io_uring only if the kernel can be made to offer it.
    pub(crate) fn all() -> Vec<Self> {
        let way = |io_uring| move |options| Self { options, io_uring };
        let mut all: Vec<_> = OPTIONS.into_iter().map(way(false)).collect();
        match Switch::turn(true) {
            // Caching does not depend on the transport.
            Some(_) => all.extend(OPTIONS.into_iter().take(2).map(way(true))),
            None => println!("SKIPPED: io_uring, which the kernel does not offer, or only to root"),
        }
        all
    }

    /// Whether other users can use it. Such mounts use `/dev/fuse`.
    pub(crate) fn is_shared(self) -> bool {
        rustix::process::geteuid().is_root() && !self.io_uring
    }

    /// Whether pjdfstest can run in it: run by root, it also works as other users.
    pub(crate) fn is_for_pjdfstest(self) -> bool {
        self.is_shared() || !rustix::process::geteuid().is_root()
    }

    /// Its name in output.
    pub(crate) fn name(self) -> String {
        let transport = if self.io_uring { " over io_uring" } else { "" };
        self.options.join(" ") + transport
    }

    /// Mirrors `source` on a folder beside it.
    pub(crate) fn bridge(self, verimount: &Path, source: &Path) -> Result<Bridge> {
        // The path must not be longer than the source's: one of a socket has at most 107 bytes.
        let point = MountPoint::new(source.with_file_name("mnt"))?;
        let log = point.path().with_extension("log");
        let mut bridge = Command::new(verimount);
        bridge.arg("bridge").args(self.options);
        if self.is_shared() {
            bridge.arg("--allow-other");
        }
        bridge.arg("--log").arg(&log).arg(source).arg(point.path());
        let _switch = Switch::turn(self.io_uring);
        command::run(&mut bridge)?;
        Ok(Bridge { point, log })
    }
}

/// A directory that is mirrored until this is dropped.
#[derive(Debug)]
pub(crate) struct Bridge {
    point: MountPoint,
    log: PathBuf,
}

impl Bridge {
    pub(crate) fn path(&self) -> &Path {
        self.point.path()
    }

    /// Ends it, and checks that it ran without errors until now.
    pub(crate) fn end(self) -> Result<()> {
        let lasted = self.point.is_mounted();
        self.point.unmount()?;
        let log = fs::read_to_string(&self.log)?;
        let has_errors = ["ERROR", "panicked"].iter().any(|word| log.contains(word));
        ensure!(lasted && !has_errors, "the bridge ended or failed:\n{log}");
        Ok(())
    }
}
