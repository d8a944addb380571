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
use thiserror::Error;
use verimount_fuse::{Agreement, AwakeLimit, Connection, FileSystem, Session, Transport, Wishes};
use verimount_names::printable;

use crate::{
    Attached, UnmountError, fusermount, kernel_mount,
    mount_table::mounted_on,
    place::{HeldPlace, Place, is_dead},
    unmount,
};

/// How much root lets the kernel read ahead, in KiB: one request of the largest size.
const READ_AHEAD_KB: &str = "1024";

/// How many file descriptors a mount takes at least until it is served: for the device, the mount
/// table, `fusermount3` with its pipes, and signals.
const DESCRIPTORS: usize = 8;

/// What the mount table shows as the type, behind `fuse.`.
pub(crate) const SUBTYPE: &str = "verimount";

/// How a tree is mounted.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// What the mount table shows as the source.
    pub source_name: String,
    /// Whether the kernel refuses all changes.
    pub read_only: bool,
    /// Whether other users may use the mount.
    pub allow_other: bool,
    /// How many threads answer the kernel.
    pub threads: NonZeroUsize,
    /// Whether idle processors are kept awake while requests come, which only root can.
    pub awake: bool,
}

/// What the system allowed a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// The kernel reads ahead in the largest requests; else in 128 KiB.
    pub large_read_ahead: bool,
    /// How requests come.
    pub transport: Transport,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read_ahead = if self.large_read_ahead { "1M" } else { "128K" };
        write!(f, "read-ahead {read_ahead}, {}", self.transport)
    }
}

/// Why a tree could not be mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The mount point cannot be looked at.
    #[error("mount point {}: {reason}", printable(path))]
    MountPoint {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        #[source]
        reason: io::Error,
    },
    /// The mount point is no directory.
    #[error("mount point {} is not a directory", printable(.0))]
    NotADirectory(PathBuf),
    /// The mount point has entries, which the mount would hide.
    #[error("mount point {} is not empty", printable(.0))]
    NotEmpty(PathBuf),
    /// A FUSE file system is mounted there already.
    #[error("{} is already mounted; unmount it first", printable(.0))]
    AlreadyMounted(PathBuf),
    /// A dead daemon's mount could not be cleared away.
    #[error("the dead mount on {} cannot be removed: {reason}", printable(path))]
    Dead {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        #[source]
        reason: UnmountError,
    },
    /// Processors cannot be kept awake.
    #[error("keeping processors awake, through /dev/cpu_dma_latency: {0}")]
    Awake(#[source] io::Error),
    /// The kernel or `fusermount3` refused.
    #[error("mounting on {}: {reason}", printable(path))]
    Refused {
        /// The mount point.
        path: PathBuf,
        /// What they said.
        #[source]
        reason: io::Error,
    },
}

/// What can be mounted: a file system and what it wants from the kernel.
pub trait Mountable: FileSystem {
    /// What to agree on with the kernel.
    fn wishes(&self) -> Wishes;

    /// The kernel has agreed to this; `connection` reaches it from now on.
    ///
    /// # Errors
    /// Why the file system cannot work so.
    fn agreed(&self, agreement: &Agreement, connection: Connection) -> io::Result<()>;
}

/// Mounts `fs` on the empty directory `mount_point` and agrees with the kernel. Nobody answers for it
/// before [`Attached::start`]: until then, whoever uses it waits.
///
/// # Errors
/// Any [`MountError`].
pub fn attach<F: Mountable>(
    fs: Arc<F>,
    mount_point: &Path,
    options: &MountOptions,
) -> Result<Attached<F>, MountError> {
    let mount_point = checked_mount_point(mount_point)?;
    let awake = options.awake.then(AwakeLimit::open).transpose();
    let awake = awake.map_err(MountError::Awake)?;
    let refused = |reason| MountError::Refused {
        path: mount_point.clone(),
        reason,
    };
    check_descriptors(DESCRIPTORS).map_err(refused)?;
    let device = open_mounted(&mount_point, options).map_err(refused)?;
    let held = HeldPlace::new(mount_point.clone());
    let session =
        Session::new(fs.clone(), device, fs.wishes(), options.threads).map_err(refused)?;
    fs.agreed(session.agreement(), session.connection())
        .map_err(refused)?;
    // The kernel's agreement has set it.
    let large_read_ahead = raise_read_ahead(&held.place);
    Ok(Attached {
        session,
        awake,
        held,
        large_read_ahead,
    })
}

/// Fails unless this process may open so many descriptors more. What is attached and cannot be served
/// could then not be taken away either.
fn check_descriptors(count: usize) -> io::Result<()> {
    let nothing = File::open("/dev/null")?;
    let copies = (0..count).map(|_| nothing.try_clone());
    let copies: io::Result<Vec<File>> = copies.collect();
    copies.map(drop).map_err(|error| {
        let text = format!("{error}: a mount takes {count} file descriptors (ulimit -n)");
        io::Error::new(error.kind(), text)
    })
}

/// Mounts on `mount_point`; gives the FUSE device, opened.
fn open_mounted(mount_point: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    if geteuid().is_root() {
        match kernel_mount::mount(mount_point, options) {
            // Root of a container may not be allowed to.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => return other,
        }
    }
    fusermount::mount(mount_point, options)
}

/// The absolute path of a mount point that can be used.
fn checked_mount_point(path: &Path) -> Result<PathBuf, MountError> {
    let unusable = |reason| MountError::MountPoint {
        path: path.to_owned(),
        reason,
    };
    let absolute = path.canonicalize().map_err(unusable)?;
    clear_dead_mount(&absolute)?;
    if mounted_on(&absolute).is_some_and(|entry| entry.fs_type.starts_with("fuse")) {
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

/// Unmounts what a daemon of ours that died has left behind.
fn clear_dead_mount(mount_point: &Path) -> Result<(), MountError> {
    let ours = mounted_on(mount_point).is_some_and(|entry| entry.is_ours());
    if !ours || !is_dead(mount_point) {
        return Ok(());
    }
    unmount(mount_point, true).map_err(|reason| MountError::Dead {
        path: mount_point.to_owned(),
        reason,
    })
}

/// Lets the kernel read ahead more than FUSE may ask for; only root can.
fn raise_read_ahead(place: &Place) -> bool {
    geteuid().is_root()
        && place.device.as_ref().is_some_and(|device| {
            let setting = format!("/sys/class/bdi/{device}/read_ahead_kb");
            fs::write(setting, READ_AHEAD_KB).is_ok()
        })
}
