//! Changes of names under a policy: what it denies by path stays denied, however names change.
//!
//! The policy decides by where a file is [now](Mirror::file_paths). So no name of a file may allow more than
//! its other names, and a move is refused if it could undo a denial for anybody.
//!
//! Between this check and the move, others may change names. Nothing here locks them out, as they would
//! have to wait while the source does:
//!
//! - In the directories whose entries an operation changes, the kernel lets no other operation of the mount
//!   change entries before it has the answer. So what was checked is what is moved or removed.
//! - The directories themselves may be moved, but no move loosens the policy for any path below. So the
//!   operation could as well have been done when it was checked, before the other move.
//! - What is changed in the source, past the mount, counts when it is found. A change between the check of one
//!   operation and its end may count only for the next.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, RenameFlags},
    io::Errno,
};

use super::{Bridge, records::Attempt};
use crate::{
    Caller, Entry, NewFile, NodeId, Register,
    open_facts::OpenFacts,
    policy::{Access, Kind, Move, Policy},
};

/// A name in a directory.
type Place<'a> = (NodeId, &'a OsStr);

/// Operations on names.
impl<R: Register> Bridge<R> {
    /// As [`Mirror::mknod`](crate::Mirror::mknod). For the policy, a regular file is created.
    ///
    /// # Errors
    /// `EACCES` if the policy denies it, and as [`Mirror::mknod`](crate::Mirror::mknod).
    pub fn mknod(
        &self,
        parent: NodeId,
        name: &OsStr,
        new: NewFile,
        file_type: FileType,
        rdev: u32,
    ) -> Result<Entry, Errno> {
        let is_special = [
            FileType::Fifo,
            FileType::Socket,
            FileType::CharacterDevice,
            FileType::BlockDevice,
        ]
        .contains(&file_type);
        if !is_special {
            let facts = OpenFacts::creating(&self.mirror, parent, name, new.caller);
            self.decide("make", facts)?;
        }
        self.mirror.mknod(parent, name, new, file_type, rdev)
    }

    /// As [`Mirror::link`](crate::Mirror::link). For a regular file, the policy must deny the same
    /// by both names, and let the caller write to it by the new one.
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
        let policy = self.policy();
        if policy.can_deny() && self.mirror.getattr(node)?.file_type() == FileType::RegularFile {
            let to = self.path_of((parent, name))?;
            for from in &self.mirror.file_paths(node)? {
                let moved = Move {
                    kind: Kind::File,
                    from,
                    to: &to,
                };
                self.keeps_denials(&policy, "link", caller, moved)?;
                self.keeps_denials(&policy, "link", caller, moved.back())?;
            }
            self.permit_write(&policy, "link", caller, node, to.clone())?;
        }
        self.mirror.link(caller, node, parent, name)
    }

    /// As [`Mirror::unlink`](crate::Mirror::unlink). For the policy, removing a regular file is
    /// writing to it.
    ///
    /// # Errors
    /// `EACCES` if the policy denies it, and as [`Mirror::unlink`](crate::Mirror::unlink).
    pub fn unlink(&self, caller: Caller, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        let policy = self.policy();
        if policy.can_deny() {
            let removed = self.find((parent, name))?;
            self.permit_removal(&policy, "unlink", caller, &removed)?;
        }
        self.mirror.unlink(caller, parent, name)
    }

    /// As [`Mirror::rename`](crate::Mirror::rename). For the policy, moving a regular file is
    /// writing to it at its new path, and replacing one is writing to it. A move is refused if the
    /// policy would then deny anybody less. For a directory, this holds for everything below it.
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
        let policy = &self.policy();
        if policy.can_deny() {
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

    fn path_of(&self, (parent, name): Place<'_>) -> Result<PathBuf, Errno> {
        Ok(self.mirror.directory_path(parent)?.join(name))
    }

    fn find(&self, (parent, name): Place<'_>) -> Result<Found<'_, R>, Errno> {
        Ok(Found {
            path: self.path_of((parent, name))?,
            entry: self.mirror.lookup(parent, name)?,
            bridge: self,
        })
    }

    /// Fails if `caller` may not move the file that was found to the path `to`.
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
                if attr.nlink > 1 {
                    // Its other names still allow as much as before.
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

    /// Fails if moving a directory might take a file to a path where `caller` may not write:
    /// because writing is denied below the new path where it was not below the old one, or is
    /// denied everywhere below the new path.
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

    /// Fails if `caller` may not remove the name that was found.
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
        access: None,
        caller,
        path: Some(moved.from),
        to: Some(moved.to),
    }
}

/// The file at a name, counted as a lookup until this is dropped.
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
