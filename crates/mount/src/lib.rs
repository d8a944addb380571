//! Attaches file systems of this process to directories, and finds, asks and ends what is attached.
//!
//! [`attach`] mounts a [`Mountable`] on a directory and starts the threads that answer, and [`Mounted::wait`]
//! waits for the end of the mount. What is served is unknown here: [`MountEntry::ask`] returns a
//! status as it is told.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod ask;
mod daemon;
mod end_signals;
mod ending;
mod exports;
mod fusermount;
mod helping;
mod in_time;
mod kernel_mount;
mod mount;
mod mount_table;
mod mounted;
mod native;
mod native_name;
mod own_mount;
mod processes;
mod unmount;
mod unseen;

pub use ask::{NoAnswer, STATUS_XATTR};
pub use daemon::{Daemon, DaemonEnd};
pub use end_signals::{EndSignals, Reload, Terminal};
pub use ending::{EndingMount, ending_mounts, shown_process};
pub use exports::{RegisteredExport, Registration, registered_exports};
pub use fusermount::find_fusermount;
pub use helping::MountTasks;
pub use in_time::in_time;
pub use mount::{Engine, Mode, MountError, MountOptions, Mountable, attach};
pub use mount_table::{MountEntry, mounts, our_mount_on};
pub use mounted::Mounted;
pub use native::{IMAGE, attach_native};
pub use unmount::{UnmountError, unmount, unmount_by_force, unmount_lazily};
pub use verimount_fuse::Awake;
