//! Serves directory trees and volumes to the kernel through FUSE.
//!
//! [`ImageFs`], [`BridgeFs`] and [`VolumeFs`] are thin adapters between FUSE and the types that have all
//! behaviour and are tested without a mount: [`VerifiedTree`], [`Bridge`](verimount_bridge::Bridge) and
//! [`Volume`](verimount_integrity::Volume). [`attach`] mounts one on a directory, [`Attached::start`]
//! starts the threads that answer, and [`Mounted::wait`] waits for the end of the mount.

mod ask;
mod attached;
mod bridge_fs;
mod cache_policy;
mod daemon;
mod disk;
mod end_signals;
mod ending;
mod errno;
mod export_check;
mod exports;
mod fusermount;
mod handles;
mod image_fs;
mod kernel_mount;
mod limits;
mod listings;
mod mount;
mod mount_table;
mod mounted;
mod origin;
mod place;
mod processes;
mod requests;
mod seen_names;
mod status;
mod unchanged;
mod unmount;
mod verified_tree;
mod volume_export;
mod volume_fs;
mod volume_status;

pub use ask::{AskError, Export, ask_export, ask_mount};
pub use attached::Attached;
pub use bridge_fs::{BridgeFs, BridgeOptions, PolicyFile, Registrar};
pub use cache_policy::CachePolicy;
pub use daemon::{Daemon, DaemonEnd};
pub use disk::Disk;
pub use end_signals::{EndSignals, Reload, Terminal};
pub use ending::{EndingMount, ending_mounts, shown_process};
pub use export_check::{CheckEvent, check_export};
pub use exports::{RegisteredExport, Registration, registered_exports};
pub use image_fs::{ImageFs, Owners, PermissionsStored};
pub use mount::{Mode, MountError, MountOptions, Mountable, attach};
pub use mount_table::{MountEntry, mounts};
pub use mounted::Mounted;
pub use origin::{CacheStatus, Origin, OriginFailure, OriginStatus};
pub use requests::Requests;
pub use status::{Kind, Pin, Served, Status};
pub use unmount::{UnmountError, unmount};
pub use verified_tree::{Failure, ImageStatus, VerifiedTree};
pub use volume_export::VolumeExport;
pub use volume_fs::{DiskAccess, VolumeFs};
pub use volume_status::{BadSector, StorageCounts, VolumeStatus};

/// The extended attribute of a mount's root directory that holds its [`Status`] as JSON.
pub const STATUS_XATTR: &str = "user.verimount.status";

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
