use std::{ffi::OsStr, os::fd::OwnedFd};

use rustix::{
    fs::{
        AtFlags, CWD, Mode, XattrFlags, chmodat, getxattr, getxattr_query, listxattr,
        listxattr_query, removexattr, setxattr,
    },
    io::Errno,
};

use super::Mirror;
use crate::{NodeId, reopen::PathTo};

/// The access control list for access checks. Setting it changes the permission bits.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// Extended attributes of any kind of file, including access control lists.
impl Mirror {
    /// Stores the value of an attribute in `value` and returns its length. If `value` is empty,
    /// only returns the length.
    ///
    /// # Errors
    /// `ENODATA` if there is none, `ERANGE` if it is longer than `value`, and any.
    pub fn getxattr(&self, node: NodeId, name: &OsStr, value: &mut [u8]) -> Result<usize, Errno> {
        let file = self.descriptor(node)?;
        let path = PathTo::new(&file);
        match value {
            [] => getxattr_query(&*path, name),
            _ => getxattr(&*path, name, value),
        }
    }

    /// Stores the NUL-terminated names of all attributes in `names` and returns their length. If
    /// `names` is empty, only returns the length.
    ///
    /// # Errors
    /// `ERANGE` if they are longer than `names`, and any.
    pub fn listxattr(&self, node: NodeId, names: &mut [u8]) -> Result<usize, Errno> {
        let file = self.descriptor(node)?;
        let path = PathTo::new(&file);
        match names {
            [] => listxattr_query(&*path),
            _ => listxattr(&*path, names),
        }
    }

    /// Sets an attribute. With `clear_set_gid`, a new access control list clears the set-group-id
    /// bit.
    ///
    /// # Errors
    /// Any.
    pub fn setxattr(
        &self,
        node: NodeId,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
        clear_set_gid: bool,
    ) -> Result<(), Errno> {
        self.for_change()?;
        let file = self.descriptor(node)?;
        let _keeping = match name == ACCESS_LIST && !clear_set_gid {
            true => Some(self.rights.keep_set_gid()?),
            false => None,
        };
        setxattr(&*PathTo::new(&file), name, value, flags)?;
        match name == ACCESS_LIST && clear_set_gid {
            true => self.clear_set_gid(&file),
            false => Ok(()),
        }
    }

    /// Clears the set-group-id bit explicitly, since the system keeps it if the file's group is one
    /// of this process's groups.
    fn clear_set_gid(&self, file: &OwnedFd) -> Result<(), Errno> {
        let (_, attr) = self.source.examine_open(file)?;
        let mode = Mode::from_raw_mode(attr.mode);
        match mode.contains(Mode::SGID) {
            true => chmodat(
                CWD,
                &*PathTo::new(file),
                mode.difference(Mode::SGID),
                AtFlags::empty(),
            ),
            false => Ok(()),
        }
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none, and any.
    pub fn removexattr(&self, node: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.for_change()?;
        let file = self.descriptor(node)?;
        removexattr(&*PathTo::new(&file), name)
    }
}
