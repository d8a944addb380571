//! What most tests use.

pub(crate) use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    thread,
    time::{Duration, Instant},
};

pub(crate) use rustix::{
    fs::{
        AtFlags, CWD, FallocateFlags, Mode, OFlags, XattrFlags, fallocate, mknodat, setxattr,
        statvfs,
    },
    io::Errno,
    mount::{MountFlags, UnmountFlags},
};
pub(crate) use serde_json::Value;
pub(crate) use verimount_testkit::*;
