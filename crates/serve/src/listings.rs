use std::collections::VecDeque;

use rustix::io::Errno;
use verimount_bridge::{Mirror, NodeId, OpenDirectory};
use verimount_sync::Mutex;

/// How many partially listed directories are kept open. Others are reopened to continue.
const MAX_OPEN: usize = 64;

/// Open directories that are being listed. The kernel sends no OPENDIR, which saves a round trip per
/// listing: a directory is opened for the first part, and kept open from part to part.
#[derive(Default)]
pub(crate) struct Listings(Mutex<VecDeque<Listing>>);

struct Listing {
    node: NodeId,
    /// Where the next part begins.
    position: u64,
    directory: OpenDirectory,
}

impl Listings {
    /// A directory to be listed from `position` on.
    ///
    /// # Errors
    /// As [`Mirror::open_directory`].
    pub(crate) fn take(
        &self,
        mirror: &Mirror,
        node: NodeId,
        position: u64,
    ) -> Result<OpenDirectory, Errno> {
        // A new listing opens the directory again, to list entries that were created meanwhile.
        let kept = match position {
            0 => None,
            _ => self.find(node, position),
        };
        kept.map_or_else(|| mirror.open_directory(node), Ok)
    }

    fn find(&self, node: NodeId, position: u64) -> Option<OpenDirectory> {
        let mut kept = self.0.lock();
        let found = kept
            .iter()
            .position(|listing| (listing.node, listing.position) == (node, position))?;
        kept.remove(found).map(|listing| listing.directory)
    }

    /// Keeps a directory whose next part begins at `position`.
    pub(crate) fn keep(&self, directory: OpenDirectory, position: u64) {
        let mut kept = self.0.lock();
        let oldest = match kept.len() {
            MAX_OPEN => kept.pop_front(),
            _ => None,
        };
        kept.push_back(Listing {
            node: directory.node(),
            position,
            directory,
        });
        drop(kept);
        // Closed without the lock, as closing is I/O.
        drop(oldest);
    }
}
