//! The directory of a cache, and its files. Nobody else may be able to put anything there: every name is
//! opened relative to the directory's descriptor and must not be a link.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, mkdirat,
        openat, statat, unlinkat,
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
        check(&outer, path, Mode::WGRP | Mode::WOTH, 0o755)?;
        let inner = path.join(OBJECTS);
        let fd = open_directory(&outer, OBJECTS.as_ref(), &inner)?;
        check(&fd, &inner, Mode::RWXG | Mode::RWXO, 0o700)?;
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
        let file = match openat(&self.fd, name, flags | creating | OFlags::RDWR, FILE_MODE) {
            Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) => {
                openat(&self.fd, name, flags | OFlags::RDONLY, Mode::empty())
            }
            opened => opened,
        };
        let file = file.map_err(|errno| self.failed(name, errno))?;
        let at = self.path.join(name);
        let stat = fstat(&file).map_err(|errno| self.failed(name, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let expected = "a regular file";
            return Err(CacheError::WrongType { at, expected });
        }
        check(&file, &at, Mode::RWXG | Mode::RWXO, 0o600)?;
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

    /// Removes an object's file, unless it is used; whether it was removed.
    pub(crate) fn remove_unused(&self, name: &str, file: &File) -> Result<bool, CacheError> {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        let removed = unlinkat(&self.fd, name, AtFlags::empty());
        removed.map_err(|errno| self.failed(name, errno))?;
        Ok(true)
    }

    /// The error for what the system says of a file in it.
    pub(crate) fn failed(&self, name: &str, error: impl Into<io::Error>) -> CacheError {
        CacheError::io(self.path.join(name), error)
    }
}

/// Opens a directory, and creates it if it does not exist.
fn open_directory(parent: impl AsFd, name: &Path, path: &Path) -> Result<OwnedFd, CacheError> {
    match mkdirat(&parent, name, DIRECTORY_MODE) {
        Ok(()) | Err(Errno::EXIST | Errno::ROFS | Errno::ACCESS) => {}
        Err(errno) => return Err(CacheError::io(path, errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&parent, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP | Errno::NOTDIR => CacheError::WrongType {
            at: path.to_owned(),
            expected: "a directory",
        },
        errno => CacheError::io(path, errno),
    })
}

/// Checks that a file belongs to the calling user, and has none of the permissions that are forbidden.
fn check(file: impl AsFd, path: &Path, forbidden: Mode, expected: u32) -> Result<(), CacheError> {
    let stat = fstat(file).map_err(|errno| CacheError::io(path, errno))?;
    let at = path.to_owned();
    if stat.st_uid != geteuid().as_raw() {
        return Err(CacheError::Foreign { at });
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.intersects(forbidden) {
        return Err(CacheError::Mode {
            at,
            expected,
            actual: mode.bits() & 0o777,
        });
    }
    Ok(())
}
