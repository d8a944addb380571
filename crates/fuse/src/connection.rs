use std::{io, os::fd::AsFd, sync::Arc};

use rustix::io::Errno;
use verimount_sys::{close_fuse_backing, open_fuse_backing};

use crate::{device::Device, watch::Watch};

/// The connection to the kernel, with which backing files are registered.
#[derive(Clone)]
pub struct Connection {
    device: Arc<Device>,
    watch: Option<Arc<Watch>>,
}

/// A backing file, which the kernel reads and writes directly. It is registered until this is dropped.
pub struct Backing {
    connection: Connection,
    id: i32,
}

impl Connection {
    pub(crate) fn new(device: Arc<Device>, watch: Option<Arc<Watch>>) -> Self {
        Self { device, watch }
    }

    /// Fails the request with this number, on which a thread works. What the thread returns then reaches nobody. Only with
    /// [`SessionOptions::holds`](crate::SessionOptions::holds).
    pub fn fail(&self, request: u64, error: Errno) {
        self.watch
            .iter()
            .for_each(|watch| watch.fail(request, error));
    }

    /// Registers `file` for [`Opened::backing`](crate::Opened::backing). The kernel reopens it for each
    /// open with the access mode of that open, regardless of how `file` was opened.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN` or if passthrough was not negotiated, `ELOOP` if the file is on
    /// too many stacked file systems; otherwise the system's error.
    pub fn register(&self, file: impl AsFd) -> io::Result<Backing> {
        let id = open_fuse_backing(&*self.device, file)?;
        Ok(Backing {
            connection: self.clone(),
            id,
        })
    }
}

impl Backing {
    /// The id for [`Opened::backing`](crate::Opened::backing).
    pub fn id(&self) -> i32 {
        self.id
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // Fails after the end of the mount: the kernel has unregistered all files by then.
        let _ = close_fuse_backing(&*self.connection.device, self.id);
    }
}
