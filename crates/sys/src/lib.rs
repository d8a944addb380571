//! System calls that no safe library offers, and paths that others cannot lead elsewhere. The only crate of Verimount with unsafe
//! code: each block says why it is sound.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod allocation;
mod cachestat;
mod checked;
mod end;
mod file_handle;
mod fork;
mod fs_verity;
mod fuse;
mod fuse_ring;
mod guarded_path;
mod held_signals;
mod inherited;
mod ioctl;
mod lease;
mod lookup;
mod mapping;
mod mount_attributes;
mod mount_status;
mod peer;
mod ring;
mod thread_rights;
mod writeback;

pub use allocation::return_freed_memory;
pub use cachestat::cached_pages;
pub use end::end_by;
pub use file_handle::FileHandle;
pub use fork::{Forked, fork, forks};
pub use fs_verity::{FS_IOC_MEASURE_VERITY, measure_verity};
pub use fuse::{clone_fuse_device, close_fuse_backing, open_fuse_backing};
pub use fuse_ring::{FuseRing, FuseRingRequest, SpareRing, WaitingFuseRing};
pub use guarded_path::GuardedPath;
pub use held_signals::HeldSignals;
pub use inherited::take_inherited;
pub use lease::{holds_write_lease, is_open_for_writing, release_lease, take_write_lease};
pub use lookup::{LookupError, look_up};
pub use mount_attributes::seclude_mount;
pub use mount_status::{IOC_MOUNT_STATUS, mount_status};
pub use peer::{Listener, connecting_user, listener};
pub use thread_rights::{set_thread_fs_gid, set_thread_fs_uid, unshare_umask};
pub use writeback::begin_writeback;
