use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, OnceLock},
};

use rustix::{fs::OFlags, io::Errno};

use crate::{NodeId, opened::Opened, reopen::reopen_content};

/// Flags of an open that apply to the source's file. The kernel handles the others itself, such as
/// `O_DIRECT`, which concerns the reader's buffer, not ours.
const PASSED_ON: OFlags = OFlags::ACCMODE
    .union(OFlags::APPEND)
    .union(OFlags::NOATIME)
    .union(OFlags::NONBLOCK)
    .union(OFlags::SYNC)
    .union(OFlags::TRUNC);

/// An open file, closed on drop.
#[derive(Debug)]
pub struct OpenFile {
    pub(crate) node: NodeId,
    pub(crate) flags: OFlags,
    pub(crate) content: Content,
    pub(crate) _opened: Opened,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// Open with the flags of the user.
    Open(Arc<OwnedFd>),
    /// Held with `O_PATH`, which is enough for the kernel to pass it through; opened when another
    /// operation needs it.
    Held {
        path: Arc<OwnedFd>,
        open: OnceLock<OwnedFd>,
    },
}

impl OpenFile {
    /// The file's node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// A descriptor for reading or writing, as far as the file was opened for it.
    ///
    /// # Errors
    /// As `open`, if it was not opened before.
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

    /// The descriptor for registering the file as a backing file; and again, if it is `O_PATH`
    /// only.
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

/// Those flags that apply to the source's file.
pub(crate) fn passed_on(flags: OFlags) -> OFlags {
    flags.intersection(PASSED_ON)
}

/// Whether an open with these flags may change the file.
pub(crate) fn wants_writing(flags: OFlags) -> bool {
    flags.intersection(OFlags::ACCMODE) != OFlags::RDONLY || flags.contains(OFlags::TRUNC)
}
