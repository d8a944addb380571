use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
};

use rustix::{
    fs::{AtFlags, CWD, RenameFlags, linkat, readlinkat, renameat_with, unlinkat},
    io::Errno,
};

use super::{Entry, Mirror, act::Changed};
use crate::{Caller, NodeId, name::Name, reopen::PathTo, table::Location};

/// Operations on names: finding, linking, moving and removing them.
impl Mirror {
    /// The file at `name` in a directory.
    ///
    /// # Errors
    /// `ENOENT` if there is none, and any other.
    pub fn lookup(&self, parent: NodeId, name: &OsStr) -> Result<Entry, Errno> {
        let name = Name::new(name)?;
        let directory = self.descriptor(parent)?;
        let found = self.source.examine(directory.as_fd(), name)?;
        self.remember(found, parent, name)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// Any.
    pub fn readlink(&self, node: NodeId) -> Result<OsString, Errno> {
        let link = self.descriptor(node)?;
        let target = readlinkat(&link, c"", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Adds a name to a file. Fails if the name exists.
    ///
    /// # Errors
    /// Any.
    pub fn link(
        &self,
        caller: Caller,
        node: NodeId,
        parent: NodeId,
        name: &OsStr,
    ) -> Result<Entry, Errno> {
        let name = Name::new(name)?;
        let file = self.descriptor(node)?;
        let directory = self.descriptor(parent)?;
        // Links of others' files depend on groups, too.
        let entries = Changed::Entries(&[&directory], &|| self.source.examine_open(&file));
        self.act(caller, entries, || {
            let flags = AtFlags::SYMLINK_FOLLOW;
            linkat(
                CWD,
                &*PathTo::new(&file),
                &directory,
                name.as_os_str(),
                flags,
            )
        })?;
        self.remember(self.source.examine_open(&file)?, parent, name)
    }

    /// Removes the name of anything but a directory.
    ///
    /// # Errors
    /// Any.
    pub fn unlink(&self, caller: Caller, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.remove(caller, parent, name, AtFlags::empty())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Any.
    pub fn rmdir(&self, caller: Caller, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.remove(caller, parent, name, AtFlags::REMOVEDIR)
    }

    fn remove(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        flags: AtFlags,
    ) -> Result<(), Errno> {
        let name = Name::new(name)?;
        let directory = self.descriptor(parent)?;
        if !flags.contains(AtFlags::REMOVEDIR) {
            self.keep_at_hand(directory.as_fd(), name);
        }
        let file = || self.source.examine(directory.as_fd(), name);
        self.act_as_owner(caller, Changed::Entries(&[&directory], &file), || {
            unlinkat(&directory, name.as_os_str(), flags)
        })
    }

    /// Caches a descriptor of a file that is about to lose a name. Somebody may have looked it up
    /// to open it, and the open must succeed as it would have a moment earlier.
    fn keep_at_hand(&self, directory: BorrowedFd<'_>, name: Name<'_>) {
        if let Ok((found, file)) = self.source.hold(directory, name)
            && let Some(node) = self.nodes.find(file)
        {
            self.keep(node, found);
        }
    }

    /// Moves the file at one place (a name in a directory) to another. A whiteout that is left
    /// behind belongs to the caller.
    ///
    /// # Errors
    /// Any.
    pub fn rename(
        &self,
        caller: Caller,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (old, new) = (Name::new(from.1)?, Name::new(to.1)?);
        let (source, target) = (self.descriptor(from.0)?, self.descriptor(to.0)?);
        if !flags.intersects(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE) {
            self.keep_at_hand(target.as_fd(), new);
        }
        let moved = [(&source, old), (&target, new)].map(|(directory, name)| {
            let is_wanted = self.nodes.keeps_all_names();
            let found = is_wanted.then(|| self.source.examine(directory.as_fd(), name));
            found.and_then(Result::ok).map(|(file, _)| file)
        });
        let count = || {
            for file in moved.into_iter().flatten() {
                self.nodes.count_move(file);
            }
        };
        count();
        let file = || self.source.examine(source.as_fd(), old);
        let entries = Changed::Entries(&[&source, &target], &file);
        let rename = || renameat_with(&source, old.as_os_str(), &target, new.as_os_str(), flags);
        let renamed = if from.0 == to.0 {
            self.act_as_owner(caller, entries, rename)
        } else {
            // A directory must then be writable itself.
            self.act(caller, entries, rename)
        };
        if renamed.is_ok() {
            self.record_move((&source, from.0, old), (&target, to.0, new), flags);
        }
        count();
        renamed
    }

    /// Records a move, because the kernel keeps using its nodes, and does not look up their new names.
    fn record_move(
        &self,
        (source, from, old): (&OwnedFd, NodeId, Name<'_>),
        (target, to, new): (&OwnedFd, NodeId, Name<'_>),
        flags: RenameFlags,
    ) {
        let (from, to) = (Location::new(from, old), Location::new(to, new));
        if flags.contains(RenameFlags::EXCHANGE)
            && let Ok((file, _)) = self.source.examine(source.as_fd(), old)
        {
            self.nodes.moved(file, &to, from.clone());
        }
        if let Ok((file, _)) = self.source.examine(target.as_fd(), new) {
            self.nodes.moved(file, &from, to);
        }
    }
}
