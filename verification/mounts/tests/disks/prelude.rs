//! What most tests use.

pub(crate) use std::{
    env,
    fs::{self, File, OpenOptions as FileOptions},
    io::{self, Read, Write},
    os::unix::{
        fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize},
    },
    thread,
    time::Duration,
};

pub(crate) use rustix::{
    fs::{FallocateFlags, OFlags, fallocate, statvfs},
    io::Errno,
};
pub(crate) use serde_json::Value;
pub(crate) use verimount_testkit::*;
