use std::{io, os::fd::AsFd, sync::Arc};

use verimount_sys::{close_fuse_backing, open_fuse_backing};

use crate::device::Device;

/// The connection to the kernel, for registering files with it.
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
