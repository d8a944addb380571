//! What most tests use.

pub(crate) use std::{
    fs::{self, File, OpenOptions as FileOptions, Permissions},
    io::{self, Read},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

pub(crate) use rustix::{
    fs::{AtFlags, CWD, Mode, XattrFlags, makedev, mknodat, setxattr},
    io::Errno,
    mount::MountFlags,
};
pub(crate) use serde_json::Value;
pub(crate) use verimount::{
    BuildOptions, Content, Error, FileDigest, Identity, ImageFormat, OpenOptions, PublicKey,
    RomfsOptions, SealFormat, SealOptions, SealedFile, SecretKey, build,
    options::{BlockSize, TreeParams},
    seal,
};
pub(crate) use verimount_host::{MountOptions, mounts::Kind};
pub(crate) use verimount_testkit::*;
pub(crate) use verimount_verity::{KeyPair, dm_verity};

pub(crate) use crate::{HELLO, Mounted};
