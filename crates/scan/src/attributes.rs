//! Reads extended attributes.

use std::{
    io,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
};

use rustix::{
    buffer::spare_capacity,
    fs::{getxattr, listxattr, listxattr_query},
    io::Errno,
};

use verimount_tree::{ACCESS_LIST, AccessList, Permissions};

use crate::{AttributeChoice, Xattr, cursor::Found};

/// `XATTR_LIST_MAX` and `XATTR_SIZE_MAX`: the most bytes of attribute names of a file, and of an
/// attribute's value.
const MAX_LEN: usize = 64 << 10;

/// Reads the attributes of one inode after the other.
pub(crate) struct AttributeReader {
    choice: AttributeChoice,
    names: Vec<u8>,
    value: Vec<u8>,
}

impl AttributeReader {
    pub(crate) fn new(choice: AttributeChoice) -> Self {
        Self {
            choice,
            names: Vec::with_capacity(MAX_LEN),
            value: Vec::with_capacity(MAX_LEN),
        }
    }

    /// The chosen attributes of an entry.
    pub(crate) fn read(&mut self, found: &Found) -> io::Result<Vec<Xattr>> {
        let mut attributes = Vec::new();
        if self.choice == AttributeChoice::None {
            return Ok(attributes);
        }
        let path = descriptor_path(found);
        // Most files have none, which this query shows without a buffer.
        match listxattr_query(&path) {
            Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(attributes),
            Ok(_) => {}
            Err(errno) => return Err(failure(errno)),
        }
        self.names.clear();
        listxattr(&path, spare_capacity(&mut self.names))?;
        let names = self.names.split(|byte| *byte == 0);
        for name in names.filter(|name| !name.is_empty() && self.choice.includes(name)) {
            self.value.clear();
            match getxattr(&path, name, spare_capacity(&mut self.value)) {
                Ok(_) => attributes.push(Xattr {
                    name: name.into(),
                    value: self.value.as_slice().into(),
                }),
                // It is listed, but not for this caller, or no longer there.
                Err(Errno::NODATA) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(attributes)
    }

    /// The permissions of an entry: if its access control list is not chosen, those that it has without.
    pub(crate) fn permissions(&mut self, found: &Found) -> io::Result<Permissions> {
        let permissions = Permissions::new(found.metadata.mode());
        if self.choice.includes(ACCESS_LIST.as_bytes()) || found.metadata.is_symlink() {
            return Ok(permissions);
        }
        self.value.clear();
        let list = spare_capacity(&mut self.value);
        match getxattr(descriptor_path(found), ACCESS_LIST, list) {
            Ok(_) => Ok(AccessList::removed_from(permissions, &self.value)),
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(permissions),
            Err(errno) => Err(failure(errno)),
        }
    }
}

fn failure(errno: Errno) -> io::Error {
    match errno {
        Errno::NOENT => io::Error::other("/proc is not mounted"),
        errno => errno.into(),
    }
}

/// A path to what is open. It works with `O_PATH` descriptors, and independently of the name.
pub(crate) fn descriptor_path(found: &Found) -> String {
    format!("/proc/self/fd/{}", found.file.as_raw_fd())
}
