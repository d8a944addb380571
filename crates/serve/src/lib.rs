//! Serves directory trees to the kernel through FUSE.
//!
//! [`ImageFs`] and [`BridgeFs`] are the thin adapters between FUSE and what holds all behaviour and
//! is tested without a mount: a [`VerifiedTree`] and a [`Bridge`](verimount_bridge::Bridge).
//! [`mount()`] attaches one to a directory.

mod attached;
mod bridge_fs;
mod cache_policy;
mod errno;
mod fusermount;
mod handles;
mod image_fs;
mod kernel_mount;
mod listings;
mod mount;
mod mount_table;
mod status;
mod unchanged;
mod unmount;
mod verified_tree;

pub use bridge_fs::{BridgeFs, BridgeOptions, Registrar};
pub use cache_policy::CachePolicy;
pub use image_fs::ImageFs;
pub use mount::{Mode, MountError, MountOptions, Mountable, Mounted, Reload, mount};
pub use status::Status;
pub use unmount::{UnmountError, unmount};
pub use verified_tree::{Failure, ImageStatus, Requests, VerifiedTree};

/// The extended attribute of a mount's root directory that holds its [`Status`] as JSON.
pub const STATUS_XATTR: &str = "user.verimount.status";
