//! What most tests use.

pub(crate) use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions, Permissions},
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink},
            net::UnixListener,
            process::ExitStatusExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize},
    },
    thread,
    time::{Duration, Instant},
};

pub(crate) use rustix::{
    fs::{
        AtFlags, CWD, FallocateFlags, Mode, OFlags, XattrFlags, fallocate, makedev, mknodat,
        setxattr, statvfs,
    },
    io::Errno,
    mount::{MountFlags, UnmountFlags},
    process::{Pid, Signal, kill_process},
};
pub(crate) use serde_json::{Value, json};
pub(crate) use verimount_testkit::*;

pub(crate) use crate::{
    args,
    common::{
        daemon::{Background, Daemon, is_in_state, processes_of, umount, unless_busy},
        free_port,
        run::{binary, verimount, verimount_as},
        user::User,
        world::{HELLO, Images},
    },
};
