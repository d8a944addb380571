//! What Verimount serves on this machine: the mount table, statuses, and how mounts end.

use std::path::{Path, absolute};

use verimount_content::Pin;
use verimount_names::printable;

pub use crate::processors::auto_threads;
pub use verimount_content::{CacheStatus, OriginFailure, OriginReplacement, OriginStatus};
pub use verimount_mount::{
    Daemon, DaemonEnd, EndSignals, EndingMount, Mode, MountEntry, MountError,
    MountOptions as AttachOptions, Mountable, Mounted, NoAnswer, RegisteredExport, Registration,
    Reload, Terminal, UnmountError, attach, ending_mounts, in_time, mounts, our_mount_on,
    registered_exports, shown_process, unmount, unmount_by_force, unmount_lazily,
};
pub use verimount_serve::{
    AskError, BadSector, CheckEvent, Export, Failure, ImageStatus, Kind, Requests, ResidentStatus,
    Served, Status, StorageCounts, VolumeStatus, ask_export, ask_mount, check_export,
};
pub use verimount_sys::{GuardedPath, end_by, take_inherited};

/// Describes what this process serves of `source` from now on, for its status. The path is reported as an absolute one, as
/// readers of the status have other working directories.
pub fn served(source: &Path, pin: Option<Pin>) -> Served {
    let absolute = absolute(source);
    let source = absolute.as_deref().unwrap_or(source);
    Served::new(printable(source).to_string(), pin)
}
