use std::ffi::OsStr;

use rustix::{
    fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr},
    io::Errno,
};

use super::{Mirror, act::Changed};
use crate::{Caller, NodeId, reopen::PathTo};

/// The attribute with the capabilities that a program gets.
const CAPABILITY: &str = "security.capability";

/// Extended attributes of any kind of file, including access control lists.
impl Mirror {
    /// Stores the value of an attribute in `value` and returns its length.
    ///
    /// # Errors
    /// `ENODATA` if there is none, `ERANGE` if it is longer than `value`, and any.
    pub fn getxattr(&self, node: NodeId, name: &OsStr, value: &mut [u8]) -> Result<usize, Errno> {
        let file = self.descriptor(node)?;
        getxattr(&*PathTo::new(&file), name, value)
    }

    /// Stores the NUL-terminated names of all attributes in `names` and returns their length.
    ///
    /// # Errors
    /// `ERANGE` if they are longer than `names`, and any.
    pub fn listxattr(&self, node: NodeId, names: &mut [u8]) -> Result<usize, Errno> {
        let file = self.descriptor(node)?;
        listxattr(&*PathTo::new(&file), names)
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// Any.
    pub fn setxattr(
        &self,
        caller: Caller,
        node: NodeId,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        let file = self.descriptor(node)?;
        let set = || setxattr(&*PathTo::new(&file), name, value, flags);
        if is_access_control_list(name) {
            // It may clear the set-group-id bit.
            self.act(caller, Changed::Own(&file), set)
        } else {
            self.act_as_owner(caller, Changed::File(&file), set)
        }
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none, and any.
    pub fn removexattr(&self, caller: Caller, node: NodeId, name: &OsStr) -> Result<(), Errno> {
        let file = self.descriptor(node)?;
        let remove = || removexattr(&*PathTo::new(&file), name);
        if name != CAPABILITY {
            return self.act_as_owner(caller, Changed::File(&file), remove);
        }
        // Whoever removes it by a call has the right to it, which the kernel has checked. For all others the kernel asks because
        // they write to the file, which clears it.
        self.for_change()?;
        match remove() {
            // In the bridge of an ordinary user; the write itself will clear it in the source.
            Err(Errno::PERM) => Ok(()),
            removed => removed,
        }
    }
}

fn is_access_control_list(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"system.")
}
