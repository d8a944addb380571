use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{FileType, OFlags, fdatasync, fsync},
    io::Errno,
};

use super::Mirror;
use crate::{
    NodeId,
    directory::{Listed, OpenDirectory, RawEntry},
    name::Name,
    reopen::reopen,
};

/// What is done with directories that are open.
impl Mirror {
    /// Opens a directory for listing.
    ///
    /// # Errors
    /// Any.
    pub fn open_directory(&self, node: NodeId) -> Result<OpenDirectory, Errno> {
        let path = self.descriptor(node)?;
        let directory = reopen(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(OpenDirectory::new(node, directory))
    }

    /// Gives the names in a directory to `add`, until it returns false for one, which is then listed
    /// again by the next call. `position` is 0 to begin, or some [`Listed::next`].
    ///
    /// If it adds nothing, that was all.
    ///
    /// # Errors
    /// Any.
    pub fn list(
        &self,
        directory: &OpenDirectory,
        position: u64,
        add: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        directory.list(position, &mut |raw| {
            add(Listed {
                name: raw.name(),
                inode: raw.inode,
                file_type: raw.file_type,
                next: raw.next,
                entry: None,
            })
        })
    }

    /// As [`Self::list`], with what each name stands for. Each but `.` and `..` counts as a lookup.
    ///
    /// # Errors
    /// Any.
    pub fn list_plus(
        &self,
        directory: &OpenDirectory,
        position: u64,
        add: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        directory.list(position, &mut |raw| {
            let entry = self.entry(directory, raw);
            let is_added = add(Listed {
                name: raw.name(),
                inode: entry.map_or(raw.inode, |entry| entry.attr.inode),
                file_type: raw.file_type,
                next: raw.next,
                entry,
            });
            if let Some(entry) = entry
                && !is_added
            {
                self.forget(entry.node, 1);
            }
            is_added
        })
    }

    /// What a listed name stands for; `None` for `.` and `..`, for what has been removed, and for
    /// what cannot be looked up: whoever tries is told why.
    fn entry(&self, directory: &OpenDirectory, raw: &RawEntry) -> Option<super::Entry> {
        let name = Name::new(raw.name()).ok()?;
        let found = self.source.examine(directory.fd().as_fd(), name).ok()?;
        self.remember(found, directory.node(), name).ok()
    }

    /// A regular file of the source's file system, held as a path only: one of the source directory's
    /// own, if there is one among the names that are read at once.
    pub(crate) fn some_file(&self) -> Option<OwnedFd> {
        let directory = self.open_directory(NodeId::ROOT).ok()?;
        let mut found = None;
        let take = &mut |raw: &RawEntry| {
            if raw.file_type == FileType::RegularFile
                && let Ok(name) = Name::new(raw.name())
            {
                let held = self.source.hold(directory.fd(), name);
                found = held.ok().map(|(file, _)| file);
            }
            found.is_none()
        };
        directory.list(0, take).ok()?;
        found
    }

    /// Puts a directory's entries on the disk.
    ///
    /// # Errors
    /// Any.
    pub fn fsync_directory(&self, directory: &OpenDirectory, data_only: bool) -> Result<(), Errno> {
        match data_only {
            true => fdatasync(directory.fd()),
            false => fsync(directory.fd()),
        }
    }
}
