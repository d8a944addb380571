use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{FileType, OFlags, fdatasync, fsync},
    io::Errno,
};

use verimount_fuse as fuse;

use super::{Entry, Mirror};
use crate::{
    NodeId,
    directory::{OpenDirectory, RawEntry},
    name::Name,
    reopen::reopen,
};

/// Operations on open directories.
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

    /// Passes the names in a directory to `add`, each with its entry if that is wanted and there is one, until it returns false for one, with which the
    /// next call must begin. `position` is 0 for the first name, or a [`next`](fuse::Name::next). With entries, each name but
    /// `.` and `..` counts as a lookup.
    ///
    /// If `add` is not called, the listing is complete.
    ///
    /// # Errors
    /// Any.
    pub fn list(
        &self,
        directory: &OpenDirectory,
        position: u64,
        with_entries: bool,
        add: &mut dyn FnMut(fuse::Name<'_>, Option<Entry>) -> bool,
    ) -> Result<(), Errno> {
        directory.list(position, &mut |raw| {
            let entry = with_entries.then(|| self.entry(directory, raw)).flatten();
            let name = fuse::Name {
                name: raw.name(),
                ino: entry.map_or(raw.inode, |entry| entry.attr.ino),
                mode: raw.file_type.as_raw_mode(),
                next: raw.next,
            };
            let is_added = add(name, entry);
            if let Some(entry) = entry
                && !is_added
            {
                self.forget(entry.node, 1);
            }
            is_added
        })
    }

    /// The entry of a listed name; `None` for `.` and `..`, for a removed name, and for one that
    /// cannot be looked up: a later lookup reports the error.
    fn entry(&self, directory: &OpenDirectory, raw: &RawEntry) -> Option<Entry> {
        let name = Name::new(raw.name()).ok()?;
        let found = self.source.examine(directory.fd().as_fd(), name).ok()?;
        self.remember(found, directory.node(), name).ok()
    }

    /// A regular file of the source's file system, opened with `O_PATH`: the first in the source
    /// directory, if one read of the directory finds any.
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

    /// Makes a directory's entries durable.
    ///
    /// # Errors
    /// Any.
    pub fn fsync_directory(&self, directory: &OpenDirectory, data_only: bool) -> Result<(), Errno> {
        if data_only {
            fdatasync(directory.fd())
        } else {
            fsync(directory.fd())
        }
    }
}
