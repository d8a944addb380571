use std::{
    ffi::OsStr,
    io,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    sync::Arc,
};

use rustix::io::Errno;
use verimount_sys::{close_fuse_backing, open_fuse_backing};
use zerocopy::IntoBytes;

use crate::{
    NodeId,
    abi::{NotifyInvalEntryOut, NotifyInvalInodeOut},
    device::Device,
};

/// `FUSE_NOTIFY_INVAL_INODE`.
const INVAL_INODE: i32 = 2;

/// `FUSE_NOTIFY_INVAL_ENTRY`.
const INVAL_ENTRY: i32 = 3;

/// A way to tell the kernel what it did not ask for.
#[derive(Clone)]
pub struct Connection(Arc<Device>);

/// A file that the kernel can read and write past the file system, registered until it is dropped.
pub struct Backing {
    connection: Connection,
    id: i32,
}

impl Connection {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self(device)
    }

    /// Registers `file`, for [`Opened::backing`](crate::Opened::backing). The kernel opens it again
    /// for each open, with that open's access, whatever `file` itself was opened for.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN` or without the capability agreed on, `ELOOP` if the file is
    /// on too many layers of file systems, and what else the system says.
    pub fn register(&self, file: impl AsFd) -> io::Result<Backing> {
        let id = open_fuse_backing(&*self.0, file)?;
        Ok(Backing {
            connection: self.clone(),
            id,
        })
    }

    /// Forget attributes and cached pages of a file.
    ///
    /// # Errors
    /// What the system says; a file that the kernel does not know is none.
    pub fn forget_content(&self, node: NodeId) -> Result<(), Errno> {
        let all = NotifyInvalInodeOut {
            ino: node.0,
            off: 0,
            len: 0,
        };
        known(self.0.notify(INVAL_INODE, [all.as_bytes(), &[]]))
    }

    /// Forget what file a name stands for.
    ///
    /// # Errors
    /// What the system says; a name that the kernel does not know is none.
    pub fn forget_name(&self, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        let entry = NotifyInvalEntryOut {
            parent: parent.0,
            namelen: name.len() as u32,
            flags: 0,
        };
        let name = [name.as_bytes(), &[0]].concat();
        known(self.0.notify(INVAL_ENTRY, [entry.as_bytes(), &name]))
    }
}

/// Nothing is to be forgotten of what is not known.
fn known(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

impl Backing {
    /// What an [`Opened`](crate::Opened) names it by.
    pub fn id(&self) -> i32 {
        self.id
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // At the end of the mount the kernel has done it already.
        let _ = close_fuse_backing(&*self.connection.0, self.id);
    }
}
