use crate::{Inode, InodeKind};

/// How much of what there is in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Directories, including the root.
    pub directories: u64,
    /// Regular files, each counted once.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Block and character devices.
    pub devices: u64,
    /// Sockets.
    pub sockets: u64,
    /// Named pipes.
    pub fifos: u64,
    /// Additional names of the inodes counted above.
    pub hard_links: u64,
    /// Bytes of the files' contents, each counted once, with holes.
    pub data_bytes: u64,
}

impl Summary {
    /// Counts an inode.
    pub(crate) fn count(&mut self, inode: &Inode) {
        let counter = match &inode.kind {
            InodeKind::Directory(_) => &mut self.directories,
            InodeKind::File(_) => &mut self.files,
            InodeKind::Symlink(_) => &mut self.symlinks,
            InodeKind::BlockDevice(_) | InodeKind::CharDevice(_) => &mut self.devices,
            InodeKind::Socket => &mut self.sockets,
            InodeKind::Fifo => &mut self.fifos,
        };
        *counter += 1;
        if let InodeKind::File(file) = &inode.kind {
            // Sparse files can have any size.
            self.data_bytes = self.data_bytes.saturating_add(file.size());
        }
    }

    /// Counts an additional name of an inode.
    pub(crate) fn count_hard_link(&mut self) {
        self.hard_links += 1;
    }
}
