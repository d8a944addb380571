//! Names, as far as the policy goes by them: what it denies stays denied whatever they become.
//!
//! An open is decided by the path that its file is known by. For that to hold, no name may lead to
//! a file by which more is allowed than by the others, and no file may be known by a name that it
//! has lost. Where the policy denies anything, three things see to it:
//!
//! - A move is refused if it could undo a denial, for anybody.
//! - It is checked and done while nothing else is done with names, and so is removing one: the lock
//!   is taken exclusively.
//! - Whatever notes by what name a file was found holds the lock in common.
//!
//! Opens take no lock. A path that is put together while directories above it are moved may never
//! have existed, but none of those moves loosened anything for any path below, so what was denied by
//! the path at the open's beginning is denied by that, too.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLockReadGuard, RwLockWriteGuard},
};

use rustix::{
    fs::{FileType, RenameFlags},
    io::Errno,
};

use super::{Bridge, decide::Attempt};
use crate::{
    Caller, DeviceNumber, Entry, Listed, NewFile, NodeId, OpenDirectory, Register,
    open_facts::{NewFacts, OpenFacts},
    policy::{Access, Kind, Move, Policy},
};

/// A name in a directory.
type Place<'a> = (NodeId, &'a OsStr);

/// The right to change names.
enum Changing<'a> {
    /// By a policy that denies nothing: others may, too.
    Freely { _lock: RwLockReadGuard<'a, ()> },
    /// As far as this policy lets it, and as the only one.
    Checked {
        policy: Arc<Policy>,
        _lock: RwLockWriteGuard<'a, ()>,
    },
}

/// What is done with names.
impl<R: Register> Bridge<R> {
    /// As [`Mirror::lookup`](crate::Mirror::lookup).
    ///
    /// # Errors
    /// As [`Mirror::lookup`](crate::Mirror::lookup).
    pub fn lookup(&self, parent: NodeId, name: &OsStr) -> Result<Entry, Errno> {
        let _names = self.keep_names();
        self.mirror.lookup(parent, name)
    }

    /// As [`Mirror::list_plus`](crate::Mirror::list_plus).
    ///
    /// # Errors
    /// As [`Mirror::list_plus`](crate::Mirror::list_plus).
    pub fn list_plus(
        &self,
        directory: &OpenDirectory,
        position: u64,
        add: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        let _names = self.keep_names();
        self.mirror.list_plus(directory, position, add)
    }

    /// As [`Mirror::mkdir`](crate::Mirror::mkdir).
    ///
    /// # Errors
    /// As [`Mirror::mkdir`](crate::Mirror::mkdir).
    pub fn mkdir(&self, parent: NodeId, name: &OsStr, new: NewFile) -> Result<Entry, Errno> {
        let _names = self.keep_names();
        self.mirror.mkdir(parent, name, new)
    }

    /// As [`Mirror::mknod`](crate::Mirror::mknod). For the policy, to make a regular file is to create it.
    ///
    /// # Errors
    /// `EACCES` if the policy denies it, and as [`Mirror::mknod`](crate::Mirror::mknod).
    pub fn mknod(
        &self,
        parent: NodeId,
        name: &OsStr,
        new: NewFile,
        file_type: FileType,
        device: DeviceNumber,
    ) -> Result<Entry, Errno> {
        let _names = self.keep_names();
        let is_special = [
            FileType::Fifo,
            FileType::Socket,
            FileType::CharacterDevice,
            FileType::BlockDevice,
        ]
        .contains(&file_type);
        if !is_special {
            let facts = NewFacts::new(&self.mirror, parent, name, new.caller);
            self.decide("make", &facts)?;
        }
        self.mirror.mknod(parent, name, new, file_type, device)
    }

    /// As [`Mirror::link`](crate::Mirror::link). A regular file only gets a name by which the policy denies just what it
    /// does by the name that the file has, and only from somebody who may write there.
    ///
    /// # Errors
    /// `EACCES` if the policy denies it, and as [`Mirror::link`](crate::Mirror::link).
    pub fn link(
        &self,
        caller: Caller,
        node: NodeId,
        parent: NodeId,
        name: &OsStr,
    ) -> Result<Entry, Errno> {
        let _names = self.keep_names();
        let policy = self.policy();
        if policy.can_deny() && self.mirror.getattr(node)?.file_type() == FileType::RegularFile {
            let to = self.path_of((parent, name))?;
            let moved = Move {
                kind: Kind::File,
                from: &self.mirror.path(node)?,
                to: &to,
            };
            self.keeps_denials(&policy, "link", caller, moved)?;
            self.keeps_denials(&policy, "link", caller, moved.back())?;
            self.permit_write(&policy, "link", caller, node, to.clone())?;
        }
        self.mirror.link(node, parent, name)
    }

    /// As [`Mirror::unlink`](crate::Mirror::unlink). For the policy, to remove a regular file is to write to it.
    ///
    /// # Errors
    /// `EACCES` if the policy denies it, and as [`Mirror::unlink`](crate::Mirror::unlink).
    pub fn unlink(&self, caller: Caller, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        let changing = self.changing();
        if let Changing::Checked { policy, .. } = &changing {
            let removed = self.find((parent, name))?;
            self.permit_removal(policy, "unlink", caller, &removed)?;
        }
        self.mirror.unlink(parent, name)
    }

    /// As [`Mirror::rename`](crate::Mirror::rename). For the policy, to move a regular file to a name is to write to it
    /// there, and to replace one is to write to that; and nothing may be moved if the policy would
    /// then deny anybody less of it. What is said of a file goes for all that is below a directory.
    ///
    /// # Errors
    /// `EACCES` if the policy denies it, and as [`Mirror::rename`](crate::Mirror::rename).
    pub fn rename(
        &self,
        caller: Caller,
        from: Place<'_>,
        to: Place<'_>,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let changing = self.changing();
        if let Changing::Checked { policy, .. } = &changing {
            let moved = self.find(from)?;
            let other = match self.find(to) {
                Err(Errno::NOENT) => None,
                found => Some(found?),
            };
            let is_exchange = flags.contains(RenameFlags::EXCHANGE);
            self.permit_move(policy, caller, &moved, &self.path_of(to)?)?;
            match &other {
                Some(other) if is_exchange => {
                    self.permit_move(policy, caller, other, &self.path_of(from)?)?;
                }
                Some(other) => self.permit_removal(policy, "replace", caller, other)?,
                None => {}
            }
        }
        self.mirror.rename(caller, from, to, flags)
    }

    /// Keeps others from moving and removing what this thread finds, or makes, and notes.
    pub(super) fn keep_names(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changing(&self) -> Changing<'_> {
        let lock = self.keep_names();
        if !self.policy().can_deny() {
            return Changing::Freely { _lock: lock };
        }
        drop(lock);
        let lock = self.names.write().unwrap_or_else(PoisonError::into_inner);
        // From here on it stays the policy until the lock is given back.
        Changing::Checked {
            policy: self.policy(),
            _lock: lock,
        }
    }

    fn path_of(&self, (parent, name): Place<'_>) -> Result<PathBuf, Errno> {
        Ok(self.mirror.path(parent)?.join(name))
    }

    fn find(&self, (parent, name): Place<'_>) -> Result<Found<'_, R>, Errno> {
        Ok(Found {
            path: self.path_of((parent, name))?,
            entry: self.mirror.lookup(parent, name)?,
            bridge: self,
        })
    }

    /// Fails if `caller` may not move what was found to a path.
    fn permit_move(
        &self,
        policy: &Policy,
        caller: Caller,
        found: &Found<'_, R>,
        to: &Path,
    ) -> Result<(), Errno> {
        let attr = &found.entry.attr;
        let moved = |kind| Move {
            kind,
            from: &found.path,
            to,
        };
        match attr.file_type() {
            FileType::RegularFile => {
                let moved = moved(Kind::File);
                self.keeps_denials(policy, "rename", caller, moved)?;
                if attr.links > 1 {
                    // By its other names, as much stays allowed as was.
                    self.keeps_denials(policy, "rename", caller, moved.back())?;
                }
                self.permit_write(policy, "rename", caller, found.entry.node, to.to_owned())
            }
            FileType::Directory => {
                let moved = moved(Kind::Directory);
                self.keeps_denials(policy, "rename", caller, moved)?;
                self.permit_directory(policy, caller, moved)
            }
            _ => Ok(()),
        }
    }

    /// Fails if a move could undo a denial.
    fn keeps_denials(
        &self,
        policy: &Policy,
        operation: &'static str,
        caller: Caller,
        moved: Move<'_>,
    ) -> Result<(), Errno> {
        match policy.loosened_by(moved, None) {
            None => Ok(()),
            Some(by) => Err(self.deny(policy, &attempt(operation, caller, moved), by)),
        }
    }

    /// Fails if `caller` might bring a file to where it may not write by moving a directory: below
    /// its new path may be denied what is not below the old one, or all is.
    fn permit_directory(
        &self,
        policy: &Policy,
        caller: Caller,
        moved: Move<'_>,
    ) -> Result<(), Errno> {
        let who = (Access::Write, caller);
        let denied = policy.loosened_by(moved.back(), Some(who));
        match denied.or_else(|| policy.denied_all_over(moved, who)) {
            None => Ok(()),
            Some(by) => Err(self.deny(policy, &attempt("rename", caller, moved), by)),
        }
    }

    /// Fails if `caller` may not remove the name of what was found.
    fn permit_removal(
        &self,
        policy: &Policy,
        operation: &'static str,
        caller: Caller,
        found: &Found<'_, R>,
    ) -> Result<(), Errno> {
        match found.entry.attr.file_type() {
            FileType::RegularFile => {
                let (node, path) = (found.entry.node, found.path.clone());
                self.permit_write(policy, operation, caller, node, path)
            }
            _ => Ok(()),
        }
    }

    /// Fails if `caller` may not write to a file that has, or will have, this path.
    fn permit_write(
        &self,
        policy: &Policy,
        operation: &'static str,
        caller: Caller,
        node: NodeId,
        path: PathBuf,
    ) -> Result<(), Errno> {
        let facts = OpenFacts::new(&self.mirror, node, caller, Access::Write).at(path);
        self.permit(policy, operation, &facts)
    }
}

fn attempt<'a>(operation: &'static str, caller: Caller, moved: Move<'a>) -> Attempt<'a> {
    Attempt {
        operation,
        caller,
        path: Some(moved.from),
        to: Some(moved.to),
    }
}

/// What is at a name, counted as a lookup until this is dropped.
struct Found<'a, R: Register> {
    entry: Entry,
    path: PathBuf,
    bridge: &'a Bridge<R>,
}

impl<R: Register> Drop for Found<'_, R> {
    fn drop(&mut self) {
        self.bridge.forget(self.entry.node, 1);
    }
}
