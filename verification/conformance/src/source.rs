//! The directories that are mirrored.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

use anyhow::Result;
use verimount_support::{command, mount_point::MountPoint};

/// The size in bytes of the sparse file in which a file system is made: XFS needs at least 300 MiB.
const SIZE: u64 = 1 << 30;

/// The kind of file system of the mirrored directory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// That of temporary files.
    Folder,
    /// A new file system of this type, in a file; needs root.
    Disk(&'static str),
    /// A new one in memory; needs root.
    Tmpfs,
    /// A new one above another directory; needs root.
    Overlay,
}

/// A directory to be mirrored, empty at first. It is unmounted when this is dropped.
#[derive(Debug)]
pub(crate) struct Source(MountPoint);

impl Source {
    /// A new one in `folder`, named by its kind.
    pub(crate) fn new(folder: &Path, kind: Kind) -> Result<Self> {
        let point = MountPoint::new(folder.join(kind.name()))?;
        kind.mount(folder, point.path())?;
        // Other users use it, too.
        fs::set_permissions(point.path(), Permissions::from_mode(0o755))?;
        Ok(Self(point))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Whether it is a separate file system, which may be remounted and filled.
    pub(crate) fn is_own(&self) -> bool {
        self.0.is_mounted()
    }
}

impl Kind {
    /// Makes the file system, if it is a separate one, and mounts it on `path`; its files are in `folder`.
    fn mount(self, folder: &Path, path: &Path) -> Result<()> {
        let mut mount = Command::new("mount");
        match self {
            Self::Folder => return Ok(()),
            Self::Disk(file_system) => {
                let image = path.with_extension("img");
                File::create(&image)?.set_len(SIZE)?;
                let mut make = Command::new(format!("mkfs.{file_system}"));
                command::run(make.arg("-q").arg(&image))?;
                mount.args(["-o", "loop"]).arg(&image);
            }
            Self::Tmpfs => _ = mount.args(["-t", "tmpfs", "none"]),
            Self::Overlay => {
                let layers = ["lower", "upper", "work"].map(|name| folder.join(name));
                layers.iter().try_for_each(fs::create_dir)?;
                let [lower, upper, work] = layers.map(|layer| layer.display().to_string());
                let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
                mount.args(["-t", "overlay", "-o", &options, "none"]);
            }
        }
        command::run(mount.arg(path))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Disk(file_system) => file_system,
            Self::Tmpfs => "tmpfs",
            Self::Overlay => "overlay",
        }
    }
}
