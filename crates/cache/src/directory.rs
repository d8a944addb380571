//! The directory of a cache, and its files. Nobody else may be able to put anything there: every name is
//! opened relative to the directory's descriptor and must not be a link.

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat, unlinkat,
    },
    io::Errno,
    process::geteuid,
};
use verimount_sys::GuardedPath;

use crate::CacheError;

/// The most objects that are looked at: with more, the rest is neither counted nor evicted.
const MAX_OBJECTS: usize = 65_536;

/// What the directory with the objects is called.
const OBJECTS: &str = "objects";

/// The permissions of the directory with the objects, and of the objects.
const DIRECTORY_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The directory with the objects of a cache.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens the directory in `path`, both of which are created if they do not exist.
    pub(crate) fn open(path: &Path) -> Result<Self, CacheError> {
        let guarded = GuardedPath::creating_parents(path);
        let guarded = guarded.map_err(|error| CacheError::io(path, error))?;
        let outer = open_directory(CWD, &guarded.path(), path)?;
        check_mode(&outer, path, Mode::WGRP | Mode::WOTH, 0o755)?;
        let inner = path.join(OBJECTS);
        let fd = open_directory(&outer, OBJECTS.as_ref(), &inner)?;
        check_mode(&fd, &inner, Mode::RWXG | Mode::RWXO, 0o700)?;
        Ok(Self { fd, path: inner })
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens an object's file for reading, and for writing if that is possible. It is created if it does not
    /// exist and `creates`.
    pub(crate) fn open_file(&self, name: &str, creates: bool) -> Result<File, CacheError> {
        // A named pipe, which is refused below, must not be waited for.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let creating = if creates {
            OFlags::CREATE
        } else {
            OFlags::empty()
        };
        let at = || self.path.join(name);
        let file = match openat(&self.fd, name, flags | creating | OFlags::RDWR, FILE_MODE) {
            Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) => {
                openat(&self.fd, name, flags | OFlags::RDONLY, Mode::empty())
            }
            opened => opened,
        };
        let file = file.map_err(|errno| self.failed(name, errno))?;
        let stat = fstat(&file).map_err(|errno| self.failed(name, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let expected = "a regular file";
            return Err(CacheError::WrongType { at: at(), expected });
        }
        if stat.st_uid != geteuid().as_raw() {
            return Err(CacheError::Foreign { at: at() });
        }
        check_mode(&file, &at(), Mode::RWXG | Mode::RWXO, 0o600)?;
        Ok(file.into())
    }

    /// The names of all files, and what the system knows of them.
    pub(crate) fn files(&self) -> Result<Vec<(String, Stat)>, CacheError> {
        let failed = |errno: Errno| self.failed("", errno);
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            // One may have been removed meanwhile.
            if let Ok(stat) = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
                && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            {
                files.push((name.to_owned(), stat));
            }
            if files.len() == MAX_OBJECTS {
                break;
            }
        }
        Ok(files)
    }

    /// Whether a name is that of this file.
    pub(crate) fn is_named(&self, name: &str, file: &File) -> bool {
        let named = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        matches!((named, fstat(file)), (Ok(named), Ok(own))
            if (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino))
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// The error for what the system says of a file in it.
    pub(crate) fn failed(&self, name: &str, error: impl Into<io::Error>) -> CacheError {
        CacheError::io(self.path.join(name), error)
    }
}

/// Opens a directory of the calling user, and creates it if it does not exist.
fn open_directory(
    parent: impl std::os::fd::AsFd,
    name: &Path,
    path: &Path,
) -> Result<OwnedFd, CacheError> {
    let at = || path.to_owned();
    let failed = |errno: Errno| CacheError::io(path, errno);
    match mkdirat(&parent, name, DIRECTORY_MODE) {
        Ok(()) | Err(Errno::EXIST | Errno::ROFS | Errno::ACCESS) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match openat(&parent, name, flags, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let expected = "a directory";
            return Err(CacheError::WrongType { at: at(), expected });
        }
        opened => opened.map_err(failed)?,
    };
    let stat = fstat(&fd).map_err(failed)?;
    if stat.st_uid == geteuid().as_raw() {
        Ok(fd)
    } else {
        Err(CacheError::Foreign { at: at() })
    }
}

fn check_mode(
    file: impl std::os::fd::AsFd,
    path: &Path,
    forbidden: Mode,
    expected: u32,
) -> Result<(), CacheError> {
    let stat = fstat(file).map_err(|errno| CacheError::io(path, errno))?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.intersects(forbidden) {
        Err(CacheError::Mode {
            at: path.to_owned(),
            expected,
            actual: mode.bits() & 0o777,
        })
    } else {
        Ok(())
    }
}
