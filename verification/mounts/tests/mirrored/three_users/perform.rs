//! Performs an operation as the calling thread.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::{
    fs::{
        FileType, Timespec, Timestamps, UTIME_NOW, chmodat, chownat, fchmod, fchown, fcntl_getfl,
        fcntl_setfl, fremovexattr, fsetxattr, ftruncate, futimens, ioctl_getflags, ioctl_setflags,
        linkat, mkdirat, open, openat, readlinkat, removexattr, renameat_with, statat, symlinkat,
        unlinkat, utimensat,
    },
    io::pwrite,
    process::{Gid, Uid},
};

use super::{
    operation::{At, Change, Linked, Made, Object, Operation},
    user::{Helper, Outcome, Side},
};
use crate::prelude::*;

/// Never waits for the other end of a pipe.
const ALWAYS: OFlags = OFlags::NONBLOCK
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

pub(super) fn perform(operation: &Operation, side: &Side, helper: &Helper) -> Outcome {
    use Operation as Op;
    match operation {
        Op::Open {
            at, flags, mode, ..
        } => {
            let (directory, path) = side.place(at)?;
            let mode = Mode::from_raw_mode(*mode);
            return openat(directory, path, *flags | ALWAYS, mode).map(Some);
        }
        Op::Reopen { from, flags, .. } => {
            let path = side.proc_path(*from)?;
            return open(path, *flags | ALWAYS, Mode::empty()).map(Some);
        }
        Op::Close(_) => Ok(()),
        Op::Change(object, change) => side.change(object, change, helper),
        Op::Write { slot, offset, data } => pwrite(side.file(*slot)?, data, *offset).map(drop),
        Op::Allocate {
            slot,
            mode,
            offset,
            len,
        } => fallocate(side.file(*slot)?, *mode, *offset, *len),
        Op::Store { slot, byte } => helper.store(side.file(*slot)?, *byte),
        Op::ClearAppend(slot) => {
            let file = side.file(*slot)?;
            fcntl_setfl(file, fcntl_getfl(file)?.difference(OFlags::APPEND))
        }
        Op::Remove { at, directory } => {
            let (within, path) = side.place(at)?;
            let mut flags = AtFlags::empty();
            flags.set(AtFlags::REMOVEDIR, *directory);
            unlinkat(within, path, flags)
        }
        Op::Rename { from, to, flags } => {
            let ((old, from), (new, to)) = (side.place(from)?, side.place(to)?);
            renameat_with(old, from, new, to, *flags)
        }
        Op::Link { from, to } => {
            let (new, to) = side.place(to)?;
            let (old, from, flags) = match from {
                Linked::Name(at) => {
                    let (old, from) = side.place(at)?;
                    (old, from, AtFlags::empty())
                }
                Linked::Open(slot) => (CWD, side.proc_path(*slot)?, AtFlags::SYMLINK_FOLLOW),
            };
            linkat(old, from, new, to, flags)
        }
        Op::Make(at, made) => {
            let (within, path) = side.place(at)?;
            match made {
                Made::Directory(mode) => mkdirat(within, path, Mode::from_raw_mode(*mode)),
                Made::Fifo(mode) => {
                    let mode = Mode::from_raw_mode(*mode);
                    mknodat(within, path, FileType::Fifo, mode, 0)
                }
                Made::Link(target) => symlinkat(target, within, path),
            }
        }
        Op::SetFlags(path, flags) => {
            let how = OFlags::RDONLY | OFlags::NOFOLLOW | ALWAYS;
            let file = open(side.root.join(path), how, Mode::empty())?;
            let changeable = rustix::fs::IFlags::APPEND | rustix::fs::IFlags::IMMUTABLE;
            ioctl_setflags(
                &file,
                ioctl_getflags(&file)?.difference(changeable) | *flags,
            )
        }
        Op::Stat(path) => statat(CWD, side.root.join(path), AtFlags::empty()).map(drop),
        Op::List(path) => match fs::read_dir(side.root.join(path)) {
            Ok(names) => {
                names.for_each(drop);
                Ok(())
            }
            Err(error) => Err(Errno::from_io_error(&error).unwrap()),
        },
        Op::ReadLink(path) => readlinkat(CWD, side.root.join(path), Vec::new()).map(drop),
    }
    .map(|()| None)
}

impl Side {
    pub(super) fn file(&self, slot: usize) -> Result<BorrowedFd<'_>, Errno> {
        Ok(self.open[slot].as_ref().ok_or(Errno::BADF)?.as_fd())
    }

    fn proc_path(&self, slot: usize) -> Result<PathBuf, Errno> {
        let file = self.file(slot)?.as_raw_fd();
        Ok(PathBuf::from(format!("/proc/self/fd/{file}")))
    }

    fn place(&self, at: &At) -> Result<(BorrowedFd<'_>, PathBuf), Errno> {
        Ok(match at.directory {
            Some(slot) => (self.file(slot)?, PathBuf::from(&at.path)),
            None => (CWD, self.root.join(&at.path)),
        })
    }

    fn change(&self, object: &Object, change: &Change, helper: &Helper) -> Result<(), Errno> {
        match object {
            Object::Name(path) => change_named(self.root.join(path), change, helper),
            Object::Open(slot) => change_open(self.file(*slot)?, change),
        }
    }
}

fn change_named(path: PathBuf, change: &Change, helper: &Helper) -> Result<(), Errno> {
    let none = AtFlags::empty();
    match change {
        Change::Mode(mode) => chmodat(CWD, path, Mode::from_raw_mode(*mode), none),
        Change::Owner(uid, gid) => chownat(CWD, path, owner(*uid), group(*gid), none),
        Change::Times(second) => utimensat(CWD, path, &times(*second), none),
        Change::Length(len) => helper.truncate(&path, *len),
        Change::Set(name, value) => setxattr(path, *name, value, XattrFlags::empty()),
        Change::Remove(name) => removexattr(path, *name),
    }
}

fn change_open(file: BorrowedFd<'_>, change: &Change) -> Result<(), Errno> {
    match change {
        Change::Mode(mode) => fchmod(file, Mode::from_raw_mode(*mode)),
        Change::Owner(uid, gid) => fchown(file, owner(*uid), group(*gid)),
        Change::Times(second) => futimens(file, &times(*second)),
        Change::Length(len) => ftruncate(file, *len),
        Change::Set(name, value) => fsetxattr(file, *name, value, XattrFlags::empty()),
        Change::Remove(name) => fremovexattr(file, *name),
    }
}

fn owner(id: Option<u32>) -> Option<Uid> {
    id.map(Uid::from_raw)
}

fn group(id: Option<u32>) -> Option<Gid> {
    id.map(Gid::from_raw)
}

fn times(second: Option<i64>) -> Timestamps {
    let time = match second {
        Some(tv_sec) => Timespec { tv_sec, tv_nsec: 0 },
        None => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
