//! Serves directory trees to the kernel through FUSE.
//!
//! [`ImageFs`] is the thin adapter between the FUSE library and a [`VerifiedTree`], which holds all
//! behaviour and is tested without a mount. [`mount()`] attaches one to a directory.

mod attached;
mod errno;
mod fusermount;
mod image_fs;
mod kernel_mount;
mod mount;
mod mount_table;
mod unmount;
mod verified_tree;

pub use image_fs::ImageFs;
pub use mount::{Mode, MountError, MountOptions, Mounted, mount};
pub use unmount::{UnmountError, unmount};
pub use verified_tree::{Failure, Requests, Status, VerifiedTree};

/// The extended attribute of a mount's root directory that holds its [`Status`] as JSON.
pub const STATUS_XATTR: &str = "user.verimount.status";
