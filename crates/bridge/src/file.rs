use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, OnceLock},
};

use rustix::{fs::OFlags, io::Errno};

use crate::{node::NodeId, opened::Opened, reopen::reopen_content};

/// Flags of an open that are the file's own matter. The others are the kernel's, which deals with
/// them before it asks; direct I/O is one, since it is for the reader's buffer, not for ours.
const PASSED_ON: OFlags = OFlags::ACCMODE
    .union(OFlags::APPEND)
    .union(OFlags::NOATIME)
    .union(OFlags::NONBLOCK)
    .union(OFlags::SYNC)
    .union(OFlags::TRUNC);

/// A file that is open. It is closed when this is dropped.
#[derive(Debug)]
pub struct OpenFile {
    node: NodeId,
    flags: OFlags,
    content: Content,
    _opened: Opened,
}

#[derive(Debug)]
enum Content {
    /// Open for what its user wants.
    Open(Arc<OwnedFd>),
    /// Held as a path, which is all that the kernel needs for reading and writing by itself, and
    /// opened when there is something else to be done with it.
    Held {
        path: Arc<OwnedFd>,
        open: OnceLock<OwnedFd>,
    },
}

impl OpenFile {
    pub(crate) fn open(node: NodeId, flags: OFlags, file: Arc<OwnedFd>, opened: Opened) -> Self {
        Self {
            node,
            flags,
            content: Content::Open(file),
            _opened: opened,
        }
    }

    pub(crate) fn held(
        node: NodeId,
        flags: OFlags,
        path: Arc<OwnedFd>,
        open: OnceLock<OwnedFd>,
        opened: Opened,
    ) -> Self {
        Self {
            node,
            flags,
            content: Content::Held { path, open },
            _opened: opened,
        }
    }

    /// Which file it is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// A descriptor to read and write by, as far as the file was opened for it.
    ///
    /// # Errors
    /// What `open` says, if it was not opened before.
    pub fn fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        let (path, open) = match &self.content {
            Content::Open(file) => return Ok(file.as_fd()),
            Content::Held { path, open } => (path, open),
        };
        if let Some(file) = open.get() {
            return Ok(file.as_fd());
        }
        let file = reopen_content(path, self.flags)?;
        Ok(open.get_or_init(|| file).as_fd())
    }

    /// By what the file is registered as a backing file; and if that is a path only, the path.
    pub(crate) fn backing_fd(&self) -> (BorrowedFd<'_>, Option<&Arc<OwnedFd>>) {
        match &self.content {
            Content::Open(file) => (file.as_fd(), None),
            Content::Held { path, .. } => (path.as_fd(), Some(path)),
        }
    }

    /// Whether it was opened for writing.
    pub fn is_writable(&self) -> bool {
        wants_writing(self.flags)
    }
}

/// Those of the flags that matter to the file.
pub(crate) fn passed_on(flags: OFlags) -> OFlags {
    flags.intersection(PASSED_ON)
}

/// Whether an open with these flags may change the file.
pub(crate) fn wants_writing(flags: OFlags) -> bool {
    flags.intersection(OFlags::ACCMODE) != OFlags::RDONLY || flags.contains(OFlags::TRUNC)
}
