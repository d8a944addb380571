use std::{
    fmt,
    fs::{self, File},
    io,
    num::NonZeroUsize,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use verimount_fuse::{
    Awake, Capabilities, Connection, FileSystem, Serving, SessionOptions, Transport, serve,
};
use verimount_names::printable;

use crate::{
    Mounted, UnmountError, fusermount, helping, kernel_mount,
    mount_table::{MountEntry, mounted_on},
    own_mount::{HeldMount, OwnMount},
    unmount::detach,
};

/// The kernel's read-ahead where root can set it, in KiB: one request of the largest size.
const READ_AHEAD_KB: &str = "1024";

/// How many file descriptors a mount needs before it is served: for the device, the mount table,
/// `fusermount3` with its pipes, and signals.
const DESCRIPTORS: usize = 8;

/// The type in the mount table, after `fuse.`.
pub(crate) const SUBTYPE: &str = "verimount";

/// How a tree is mounted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MountOptions {
    /// The source in the mount table.
    pub source_name: String,
    /// Whether the kernel refuses all changes.
    pub read_only: bool,
    /// Whether other users may use the mount.
    pub allow_other: bool,
    /// How many threads answer the kernel.
    pub threads: NonZeroUsize,
    /// Whether idle processors are kept awake while requests come, which only root can.
    pub awake: bool,
    /// Whether the kernel refuses to run programs from the mount.
    pub no_exec: bool,
    /// Whether the kernel refuses to follow symbolic links of the mount.
    pub no_symfollow: bool,
    /// Whether set-ID bits and file capabilities of programs have an effect. Only for root.
    pub suid: bool,
    /// Whether device nodes can be opened. Only for root.
    pub dev: bool,
    /// Whether the kernel reads the file system itself, and is served its image. Only for root.
    pub native: bool,
}

/// How a mount is served, as far as the system allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// What reads the file system.
    pub engine: Engine,
    /// How requests reach this process.
    pub transport: Transport,
}

/// What reads the file system of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The kernel, which asks this process for the image.
    Native,
    /// This process.
    Served {
        /// Whether the kernel reads ahead in requests of the largest size, or else of 128 KiB.
        large_read_ahead: bool,
    },
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = match self.engine {
            Engine::Native => "native",
            Engine::Served {
                large_read_ahead: true,
            } => "read-ahead 1M",
            Engine::Served { .. } => "read-ahead 128K",
        };
        write!(f, "{engine}, {}", self.transport)
    }
}

/// Why a tree could not be mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The mount point cannot be examined.
    #[error("mount point {}: {reason}", printable(path))]
    MountPoint {
        /// The mount point.
        path: PathBuf,
        /// The system's error.
        #[source]
        reason: io::Error,
    },
    /// The mount point is not a directory.
    #[error("mount point {} is not a directory", printable(.0))]
    NotADirectory(PathBuf),
    /// The mount point has entries, which the mount would hide.
    #[error("mount point {} is not empty", printable(.0))]
    NotEmpty(PathBuf),
    /// A FUSE file system is mounted there already.
    #[error("{} is already mounted; unmount it first", printable(.0))]
    AlreadyMounted(PathBuf),
    /// The mount of a daemon that no longer runs could not be removed.
    #[error("the dead mount on {} cannot be removed: {reason}", printable(path))]
    Dead {
        /// The mount point.
        path: PathBuf,
        /// Why it could not be unmounted.
        #[source]
        reason: UnmountError,
    },
    /// Only root can let programs and device nodes of a mount have their effect.
    #[error("only root can mount natively, or with set-ID bits or devices")]
    NotRoot,
    /// Idle processors cannot be kept awake.
    #[error("keeping processors awake, through /dev/cpu_dma_latency: {0}")]
    Awake(#[source] io::Error),
    /// The kernel's EROFS cannot be mounted, or does not read the image.
    #[error(
        "mounting on {}: the kernel's EROFS: {reason}; its log may say more; without --native, verimount reads the image itself",
        printable(path)
    )]
    Native {
        /// The mount point.
        path: PathBuf,
        /// The reason.
        #[source]
        reason: io::Error,
    },
    /// The kernel or `fusermount3` refused.
    #[error("mounting on {}: {reason}", printable(path))]
    Refused {
        /// The mount point.
        path: PathBuf,
        /// The reason.
        #[source]
        reason: io::Error,
    },
}

/// A file system that can be mounted: it knows what to request in the INIT negotiation.
pub trait Mountable: FileSystem {
    /// The capabilities and limits to request from the kernel.
    fn session_options(&self) -> SessionOptions;

    /// Called with the capabilities that the kernel has granted. `connection` can be used from now on.
    ///
    /// # Errors
    /// Why the file system cannot work with these.
    fn agreed(&self, granted: Capabilities, connection: Connection) -> io::Result<()> {
        let _ = (granted, connection);
        Ok(())
    }
}

/// Mounts `fs` on the empty directory `mount_point`, does the INIT negotiation and starts the threads that answer: when this
/// returns, the mount can be used.
///
/// # Errors
/// Any [`MountError`].
pub fn attach<F: Mountable>(
    fs: Arc<F>,
    mount_point: &Path,
    options: &MountOptions,
) -> Result<Mounted, MountError> {
    let (mount_point, awake) = ready_for(mount_point, options)?;
    let refused = |reason| MountError::Refused {
        path: mount_point.clone(),
        reason,
    };
    let device = open_mounted(&mount_point, options).map_err(refused)?;
    let held = HeldMount {
        own: OwnMount::new(mount_point.clone()),
        ended: false,
    };
    let mut large_read_ahead = false;
    let agreed = |granted, connection| {
        fs.agreed(granted, connection)?;
        // After the INIT negotiation, which sets it as well.
        large_read_ahead = raise_read_ahead(&held.own);
        Ok(())
    };
    let serving = start(&fs, device, options, awake, agreed).map_err(refused)?;
    let mode = Mode {
        engine: Engine::Served { large_read_ahead },
        transport: serving.transport(),
    };
    Ok(Mounted {
        serving,
        held,
        mode,
        _status: None,
    })
}

/// Does the INIT negotiation, and starts the threads that answer at `device`.
///
/// # Errors
/// The system's, and what `agreed` returns.
pub(crate) fn start<F: Mountable>(
    fs: &Arc<F>,
    device: OwnedFd,
    options: &MountOptions,
    awake: Option<Awake>,
    agreed: impl FnOnce(Capabilities, Connection) -> io::Result<()>,
) -> io::Result<Serving> {
    let requested = fs.session_options();
    serve(
        fs.clone(),
        device,
        &requested,
        options.threads,
        awake,
        agreed,
    )
}

/// The absolute path of a mount point where a mount with these options can be made, and what keeps processors awake.
///
/// # Errors
/// Any [`MountError`].
pub(crate) fn ready_for(
    mount_point: &Path,
    options: &MountOptions,
) -> Result<(PathBuf, Option<Awake>), MountError> {
    if (options.suid || options.dev || options.native) && !geteuid().is_root() {
        return Err(MountError::NotRoot);
    }
    let path = checked_mount_point(mount_point)?;
    let awake = options.awake.then(Awake::start).transpose();
    let awake = awake.map_err(MountError::Awake)?;
    match check_descriptors(DESCRIPTORS) {
        Ok(()) => Ok((path, awake)),
        Err(reason) => Err(MountError::Refused { path, reason }),
    }
}

/// Fails unless this process may open `count` more descriptors. Without them a mount could be neither
/// served nor removed.
fn check_descriptors(count: usize) -> io::Result<()> {
    let nothing = File::open("/dev/null")?;
    let copies = (0..count).map(|_| nothing.try_clone());
    let copies: io::Result<Vec<File>> = copies.collect();
    copies.map(drop).map_err(|error| {
        let text = format!("{error}: a mount takes {count} file descriptors (ulimit -n)");
        io::Error::new(error.kind(), text)
    })
}

impl MountOptions {
    /// Whether a mount with these options allows nothing that one with `most` does not.
    pub(crate) fn is_within(&self, most: &Self) -> bool {
        let grants = |options: &Self| {
            [
                options.allow_other,
                options.suid,
                options.dev,
                options.native,
                !options.read_only,
                !options.no_exec,
                !options.no_symfollow,
            ]
        };
        let pairs = grants(self).into_iter().zip(grants(most));
        pairs.into_iter().all(|(own, most)| !own || most)
    }
}

/// Mounts on `mount_point`; returns the open FUSE device.
fn open_mounted(mount_point: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    helping::mount(options).unwrap_or_else(|| mount_here(mount_point, options))
}

/// Mounts on `mount_point` without asking the helper process; returns the open FUSE device.
pub(crate) fn mount_here(mount_point: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    if geteuid().is_root() {
        match kernel_mount::mount(mount_point, options) {
            // Root of a container may lack the privilege.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => return other,
        }
    }
    fusermount::mount(mount_point, options)
}

/// The absolute path of a mount point, if it can be used.
fn checked_mount_point(path: &Path) -> Result<PathBuf, MountError> {
    let unusable = |reason| MountError::MountPoint {
        path: path.to_owned(),
        reason,
    };
    let absolute = path.canonicalize().map_err(unusable)?;
    // A sandboxed process has had that done before, and could not ask.
    if !verimount_helper::is_started() {
        clear_dead_mount(&absolute)?;
    }
    if mounted_on(&absolute)
        .is_some_and(|entry| entry.is_ours() || entry.fs_type.starts_with("fuse"))
    {
        return Err(MountError::AlreadyMounted(path.to_owned()));
    }
    if !absolute.is_dir() {
        return Err(MountError::NotADirectory(path.to_owned()));
    }
    let mut entries = absolute.read_dir().map_err(unusable)?;
    match entries.next() {
        None => Ok(absolute),
        Some(_) => Err(MountError::NotEmpty(path.to_owned())),
    }
}

/// Removes the mount of a Verimount daemon that no longer runs.
pub(crate) fn clear_dead_mount(mount_point: &Path) -> Result<(), MountError> {
    let ours = mounted_on(mount_point).filter(MountEntry::is_ours);
    let Some(dead) = ours.filter(MountEntry::is_dead) else {
        return Ok(());
    };
    detach(&dead).map_err(|reason| MountError::Dead {
        path: mount_point.to_owned(),
        reason,
    })
}

/// Sets the kernel's read-ahead to more than the INIT negotiation allows; only root can. Returns whether
/// it was set.
fn raise_read_ahead(own: &OwnMount) -> bool {
    geteuid().is_root() && helping::read_ahead().unwrap_or_else(|| set_read_ahead(own))
}

/// Sets the kernel's read-ahead without asking the helper process. Returns whether it was set.
pub(crate) fn set_read_ahead(own: &OwnMount) -> bool {
    own.device.as_ref().is_some_and(|device| {
        let setting = format!("/sys/class/bdi/{device}/read_ahead_kb");
        fs::write(setting, READ_AHEAD_KB).is_ok()
    })
}
