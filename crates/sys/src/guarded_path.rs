//! Paths that other users have a hand in.
//!
//! Root is given paths in directories of others: a mirror, a socket, a directory with container images. There, they can put a
//! link to what only root can read or write. So each name of a path is looked up by itself, in a directory that is held open.
//!
//! A name is *fixed* if only root and this user can change what it stands for: its directory belongs to one of both, and
//! nobody else may write to it; or the directory is sticky, and what has the name belongs to one of both and has no other name.
//! Links with fixed names are followed, as the kernel does.
//!
//! Behind the first name that is not fixed, no link is followed, not even one with a fixed name. A file without a fixed name is
//! opened only if it belongs to the owner of its directory, or to root or this user and has no other name: anybody who can
//! write to the directory may have made a hard link of another one. For sticky directories, the kernel has a rule like that
//! (`protected_regular`, proc_sys_fs(5)).
//!
//! - The mode of a directory tells who may write to it, also if it has an access control list: the bits of its group are then
//!   those that the list gives to anybody (acl(5)).
//! - Who owns the root directory is taken for root: in a user namespace, root outside has another number.
//! - In a file system that a user may have mounted, files belong to whomever its server says, so no name in it is fixed.
//! - Links of `/proc` lead to what a process has open, and are left to the kernel.

#[cfg(test)]
mod tests;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io, mem,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, StatVfsMountFlags, fstat,
        fstatfs, fstatvfs, mkdirat, openat, readlinkat, statat,
    },
    io::Errno,
    path::Arg,
    process::geteuid,
};

/// The kind of file systems of FUSE (`linux/magic.h`).
const FUSE: u64 = 0x6573_5546;

/// The most links on the way, as the kernel has it (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// A name in a directory that is open, of a path that other users cannot lead elsewhere.
#[derive(Debug)]
pub struct GuardedPath {
    given: PathBuf,
    walk: Walk,
    name: OsString,
}

impl GuardedPath {
    /// Opens the directory of the last name of `path`, which is not looked up yet.
    ///
    /// # Errors
    /// As `open`, and [`io::ErrorKind::PermissionDenied`] for a link that others may have put there.
    pub fn new(path: &Path) -> io::Result<Self> {
        Self::walk(path, false)
    }

    /// Opens the directory of the last name of `path`, and creates the directories that are missing on the way.
    ///
    /// # Errors
    /// As [`Self::new`], and those of creating them.
    pub fn creating_parents(path: &Path) -> io::Result<Self> {
        Self::walk(path, true)
    }

    fn walk(path: &Path, creates: bool) -> io::Result<Self> {
        let mut walk = Walk::new(path, creates)?;
        Ok(Self {
            given: path.to_owned(),
            name: walk.go()?,
            walk,
        })
    }

    /// A path that leads to the name as long as this lives. If nobody else has a hand in it, that is the one that was given.
    pub fn path(&self) -> PathBuf {
        let directory = &self.walk.here;
        if !directory.is_beneath {
            return self.given.clone();
        }
        let descriptor = directory.fd.as_raw_fd().to_string();
        Path::new("/proc/self/fd").join(descriptor).join(&self.name)
    }

    /// Opens the file of this name, as `openat` with these flags, to which `CLOEXEC` is added. Without `NONBLOCK` it may wait for
    /// others at a named pipe. Not with `TRUNC`: which file it is is looked at when it is open.
    ///
    /// # Errors
    /// As [`Self::new`], and [`io::ErrorKind::PermissionDenied`] for a file that others may have put there.
    pub fn open(self, flags: OFlags, mode: Mode) -> io::Result<File> {
        let Self {
            mut walk, mut name, ..
        } = self;
        let flags = flags | OFlags::CLOEXEC;
        while let Some(link) = walk.here.find(&name)?.filter(is_link) {
            if flags.contains(OFlags::NOFOLLOW) {
                return Err(Errno::LOOP.into());
            }
            walk.here.may_follow(&link)?;
            if walk.here.is_proc {
                return Ok(openat(&walk.here.fd, &name, flags, mode)?.into());
            }
            walk.follow(&name)?;
            name = walk.go()?;
        }
        walk.here.open_file(&name, flags, mode)
    }
}

/// The way along a path.
#[derive(Debug)]
struct Walk {
    here: Directory,
    /// Those through which `here` was reached. Others may move `here`, but `..` leads back all the same.
    above: Vec<Directory>,
    /// The names that are left, the next one last.
    left: Vec<OsString>,
    links: usize,
    /// Whether directories that are missing are created.
    creates: bool,
}

impl Walk {
    fn new(path: &Path, creates: bool) -> io::Result<Self> {
        // The working directory may be one that this user cannot look into.
        let start = if path.is_absolute() { "/" } else { "." };
        let mut walk = Self {
            here: Directory::open(CWD, start, OFlags::empty(), false)?,
            above: Vec::new(),
            left: Vec::new(),
            links: 0,
            creates,
        };
        walk.add(path);
        Ok(walk)
    }

    /// Puts a path in front of what is left.
    fn add(&mut self, path: &Path) {
        let names = path.components().rev();
        self.left
            .extend(names.map(|name| name.as_os_str().to_owned()));
    }

    /// Goes to the directory of the last name, and returns that.
    fn go(&mut self) -> io::Result<OsString> {
        while let Some(name) = self.left.pop() {
            match name.as_bytes() {
                b"." => {}
                b"/" => self.start_at(Directory::open(CWD, "/", OFlags::empty(), false)?),
                b".." => self.go_up()?,
                _ if self.left.is_empty() => return Ok(name),
                _ => self.enter(&name)?,
            }
        }
        Ok(".".into())
    }

    fn start_at(&mut self, directory: Directory) {
        self.above.clear();
        self.here = directory;
    }

    fn go_up(&mut self) -> io::Result<()> {
        self.here = match self.above.pop() {
            Some(above) => above,
            None => Directory::open(&self.here.fd, "..", OFlags::empty(), false)?,
        };
        Ok(())
    }

    /// Goes to the directory of this name, or where its link leads.
    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let mut entry = self.here.find(name)?;
        if entry.is_none() && self.creates {
            match mkdirat(&self.here.fd, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => entry = self.here.find(name)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        let entry = entry.ok_or(Errno::NOENT)?;
        if !is_link(&entry) {
            let is_beneath = !self.here.is_fixed(&entry);
            let next = Directory::open(&self.here.fd, name, OFlags::NOFOLLOW, is_beneath)?;
            self.above.push(mem::replace(&mut self.here, next));
            return Ok(());
        }
        self.here.may_follow(&entry)?;
        if self.here.is_proc {
            self.start_at(Directory::open(
                &self.here.fd,
                name,
                OFlags::empty(),
                false,
            )?);
            return Ok(());
        }
        self.follow(name)
    }

    /// Puts what a link here leads to in front of what is left. Its name is fixed, so that it is the link that was found.
    fn follow(&mut self, name: &OsStr) -> io::Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = readlinkat(&self.here.fd, name, Vec::new())?;
        self.add(Path::new(OsStr::from_bytes(target.as_bytes())));
        Ok(())
    }
}

/// A directory on the way.
#[derive(Debug)]
struct Directory {
    fd: OwnedFd,
    stat: Stat,
    is_proc: bool,
    /// Whether its file system is one that a user may have mounted.
    is_of_users: bool,
    /// Whether a name on the way was not fixed.
    is_beneath: bool,
}

impl Directory {
    fn open(at: impl AsFd, name: impl Arg, flags: OFlags, is_beneath: bool) -> io::Result<Self> {
        // A file system that is mounted on demand is mounted by that, too.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | flags;
        let fd = openat(at, name, flags, Mode::empty())?;
        let told = fstatfs(&fd).and_then(|told| Ok((told.f_type, fstatvfs(&fd)?.f_flag)));
        let (is_proc, is_of_users) = match told {
            // `fusermount3` lets nobody but root mount without `nosuid`.
            Ok((kind, flags)) => (
                kind == PROC_SUPER_MAGIC,
                kind.cast_unsigned() == FUSE && flags.contains(StatVfsMountFlags::NOSUID),
            ),
            // Only a server may not answer that.
            Err(_) => (false, true),
        };
        Ok(Self {
            stat: fstat(&fd)?,
            is_proc,
            is_of_users,
            is_beneath,
            fd,
        })
    }

    /// What has this name, if anything.
    fn find(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Whether nobody but root and this user can change what the name of `entry` stands for, nor those on the way.
    fn is_fixed(&self, entry: &Stat) -> bool {
        let mode = Mode::from_raw_mode(self.stat.st_mode);
        let is_shared = mode.intersects(Mode::WGRP | Mode::WOTH);
        let is_kept = mode.contains(Mode::SVTX) && is_ours_alone(entry);
        !self.is_beneath
            && !self.is_of_users
            && is_trusted(self.stat.st_uid)
            && (!is_shared || is_kept)
    }

    fn may_follow(&self, link: &Stat) -> io::Result<()> {
        if self.is_fixed(link) {
            return Ok(());
        }
        Err(refused(
            "a symbolic link that others may have put there is not followed: give the path that it leads to",
        ))
    }

    /// Opens what has this name, which is no link.
    fn open_file(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
        let file = openat(&self.fd, name, flags | OFlags::NOFOLLOW, mode)?;
        let stat = fstat(&file)?;
        let is_its_owners = stat.st_uid == self.stat.st_uid && !is_trusted(stat.st_uid);
        if self.is_fixed(&stat) || is_ours_alone(&stat) || is_its_owners {
            return Ok(file.into());
        }
        Err(refused(
            "others may have put it there, as it belongs to neither this user nor its directory's owner, or has \
             several names (hard links)",
        ))
    }
}

fn is_link(entry: &Stat) -> bool {
    FileType::from_raw_mode(entry.st_mode) == FileType::Symlink
}

/// Whether it belongs to root or this user, and has no other name.
fn is_ours_alone(entry: &Stat) -> bool {
    let is_directory = FileType::from_raw_mode(entry.st_mode) == FileType::Directory;
    is_trusted(entry.st_uid) && (is_directory || entry.st_nlink <= 1)
}

/// Whether this is root or the user of this process.
fn is_trusted(user: u32) -> bool {
    let owns_root = || statat(CWD, "/", AtFlags::empty()).is_ok_and(|root| root.st_uid == user);
    user == 0 || user == geteuid().as_raw() || owns_root()
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}
