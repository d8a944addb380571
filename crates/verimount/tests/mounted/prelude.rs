//! What most tests use.

pub(crate) use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
    thread,
};

pub(crate) use verimount::{
    BuildOptions, Content, Error, Identity, ImageFormat, OpenOptions, PublicKey, RomfsOptions,
    SealFormat, SealOptions, SealedFile, SecretKey, build, mounts::Kind, options::TreeReadahead,
    seal,
};
pub(crate) use verimount_testkit::*;
pub(crate) use verimount_verity::{KeyPair, dm_verity};

pub(crate) use crate::Mounted;
