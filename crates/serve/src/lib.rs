//! Adapters that serve directory trees and volumes through FUSE and NBD.
//!
//! [`ImageFs`], [`BridgeFs`] and [`VolumeFs`] are thin adapters between FUSE and the types that have all
//! behaviour and are tested without a mount: [`VerifiedTree`], [`Bridge`](verimount_bridge::Bridge) and
//! [`Volume`](verimount_integrity::Volume). [`attach`](verimount_mount::attach) mounts one on a directory.
//! Each tells a [`Status`] of what it serves, which [`ask_mount`] and [`ask_export`] read.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod ask;
mod bridge_fs;
mod cache_policy;
mod disk;
mod errno;
mod export_check;
mod export_options;
mod handles;
mod image_fs;
mod limits;
mod listings;
mod mirrors;
mod native_fs;
mod origin;
mod requests;
mod resident;
mod seen_names;
mod status;
mod unchanged;
mod verified_tree;
mod volume_export;
mod volume_fs;
mod volume_status;

pub use ask::{AskError, Export, ask_export, ask_mount};
pub use bridge_fs::{BridgeFs, BridgeOptions, PolicyFile, Registrar};
pub use cache_policy::CachePolicy;
pub use disk::Disk;
pub use export_check::{CheckEvent, check_export};
pub use image_fs::{ImageFs, Owners, PermissionsStored};
pub use native_fs::NativeFs;
pub use requests::Requests;
pub use resident::{Resident, ResidentError, ResidentMemory, ResidentStatus, SelectedFiles};
pub use status::{Kind, Served, Status};
pub use verified_tree::{Failure, ImageStatus, Namer, VerifiedTree};
pub use volume_export::VolumeExport;
pub use volume_fs::{DiskAccess, VolumeFs};
pub use volume_status::{BadSector, StorageCounts, VolumeStatus};
