use std::fs::Metadata;

use crate::NodeKind;

/// The contents of an image.
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
    /// Bytes of the files' contents, each counted once.
    pub data_bytes: u64,
}

impl Summary {
    /// Counts an inode.
    pub(super) fn count(&mut self, metadata: &Metadata, kind: NodeKind) {
        let counter = match kind {
            NodeKind::Directory => &mut self.directories,
            NodeKind::File => &mut self.files,
            NodeKind::Symlink => &mut self.symlinks,
            NodeKind::BlockDevice { .. } | NodeKind::CharDevice { .. } => &mut self.devices,
            NodeKind::Socket => &mut self.sockets,
            NodeKind::Fifo => &mut self.fifos,
        };
        increment(counter);
        if kind == NodeKind::File {
            self.data_bytes = self.data_bytes.saturating_add(metadata.len());
        }
    }

    /// Counts an additional name of an inode.
    pub(super) fn count_hard_link(&mut self) {
        increment(&mut self.hard_links);
    }
}

fn increment(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
