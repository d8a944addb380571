use std::{io, os::fd::AsFd, sync::Arc};

use rustix::io::Errno;
use verimount_sys::{close_fuse_backing, open_fuse_backing};

use zerocopy::IntoBytes;

use crate::{
    NodeId,
    abi::{StoreOut, notification},
    device::Device,
    watch::Watch,
};

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

    /// Gives the kernel the content of a file from `offset` on, which it has not asked for: it keeps whole pages. It waits for those that
    /// are being read.
    pub fn store(&self, node: NodeId, offset: u64, content: &[u8]) {
        let told = StoreOut {
            nodeid: node.0,
            offset,
            size: content.len() as u32,
            padding: 0,
        };
        self.device
            .notify(notification::STORE, &[told.as_bytes(), content]);
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
