//! The ways to use a directory: as it is, and as bridges show it.

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
    /// What it is asked for.
    options: &'static [&'static str],
    /// Whether the kernel offers io_uring to it.
    io_uring: bool,
}

/// Each of them shows what the one before does not: files passed through, and relayed with pages kept
/// for a while, and for good.
const OPTIONS: [&[&str]; 4] = [
    &["--passthrough", "auto"],
    &["--passthrough", "never"],
    &["--passthrough", "auto", "--cache", "exclusive"],
    &["--passthrough", "never", "--cache", "exclusive"],
];

impl Way {
    /// All that there are, those over io_uring only where the kernel can be made to offer it.
    pub(crate) fn all() -> Vec<Self> {
        let way = |io_uring| move |options| Self { options, io_uring };
        let mut all: Vec<_> = OPTIONS.into_iter().map(way(false)).collect();
        match Switch::turn(true) {
            // Pages are kept alike, whichever way answers come.
            Some(_) => all.extend(OPTIONS.into_iter().take(2).map(way(true))),
            None => println!("LEFT OUT: io_uring, which the kernel does not offer or only to root"),
        }
        all
    }

    /// Whether others than its user can use it. Those that can are answered through `/dev/fuse`.
    pub(crate) fn is_shared(self) -> bool {
        rustix::process::geteuid().is_root() && !self.io_uring
    }

    /// Whether pjdfstest can be run in it, which works as others, too, if root runs it.
    pub(crate) fn is_for_pjdfstest(self) -> bool {
        self.is_shared() || !rustix::process::geteuid().is_root()
    }

    /// For people to read.
    pub(crate) fn name(self) -> String {
        let transport = if self.io_uring { " over io_uring" } else { "" };
        self.options.join(" ") + transport
    }

    /// Mirrors `source` on a folder beside it.
    pub(crate) fn bridge(self, verimount: &Path, source: &Path) -> Result<Bridge> {
        // No longer a path than the source's: one to a socket has at most 107 bytes.
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

    /// Ends it, and looks whether it did all the time what it should.
    pub(crate) fn end(self) -> Result<()> {
        let lasted = self.point.is_mounted();
        self.point.unmount()?;
        let log = fs::read_to_string(&self.log)?;
        let has_errors = ["ERROR", "panicked"].iter().any(|word| log.contains(word));
        ensure!(lasted && !has_errors, "the bridge ended or failed:\n{log}");
        Ok(())
    }
}
