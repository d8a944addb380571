//! Structures of a file system, which the kernel reads page by page and keeps.

use std::{
    io,
    sync::{
        Arc, Weak,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use verimount_fuse::{Connection, NodeId};
use verimount_source::{GRANULE, Scratch};
use verimount_tree::SingleFile;

use crate::VerifiedTree;

/// The most pages that are waiting to be looked at. Others are only answered.
const MAX_WAITING: usize = 64;

/// Gives the kernel what is around pages that it asks for.
///
/// It has the image's pages in memory only for structures, and asks for one at a time. From the second one in a granule on, the
/// granule is given, verified as any other answer, in a thread of its own: that waits for pages which are being asked for.
pub(super) struct Structures(SyncSender<u64>);

impl Structures {
    /// # Errors
    /// The system's, without a thread.
    pub(super) fn start(tree: &Arc<VerifiedTree>, connection: Connection) -> io::Result<Self> {
        let (sender, asked) = sync_channel(MAX_WAITING);
        let tree = Arc::downgrade(tree);
        thread::Builder::new()
            .name("structures".to_owned())
            .spawn(move || give(&tree, &connection, &asked))?;
        Ok(Self(sender))
    }

    /// A page at `offset` is asked for.
    pub(super) fn asked(&self, offset: u64) {
        let _ = self.0.try_send(offset);
    }
}

fn give(tree: &Weak<VerifiedTree>, connection: &Connection, asked: &Receiver<u64>) {
    let mut scratch = Scratch::default();
    let mut recent = Recent::default();
    for offset in asked {
        let Some(tree) = tree.upgrade() else {
            return;
        };
        let Some(start) = recent.granule_to_give(offset) else {
            continue;
        };
        // What does not match is told by the read that asks for it.
        let granule = tree
            .inner()
            .read(SingleFile::FILE, start, GRANULE as usize, &mut scratch);
        if let Ok(granule) = granule {
            connection.store(NodeId(SingleFile::FILE.get()), start, granule);
        }
    }
}

/// The granules in which pages were asked for, and of which nothing else was given.
#[derive(Default)]
struct Recent {
    begun: [Option<u64>; Self::COUNT],
    next: usize,
}

impl Recent {
    const COUNT: usize = 8;

    /// The beginning of the granule of `offset`, if this is the second page in it that is asked for.
    fn granule_to_give(&mut self, offset: u64) -> Option<u64> {
        let start = offset - offset % GRANULE;
        if let Some(begun) = self.begun.iter_mut().find(|begun| **begun == Some(start)) {
            *begun = None;
            return Some(start);
        }
        self.begun[self.next] = Some(start);
        self.next = (self.next + 1) % Self::COUNT;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_page_of_a_granule_gives_it() {
        let mut recent = Recent::default();
        let given = [0, 3 * GRANULE, 4096, 8192, 3 * GRANULE + 4096]
            .map(|offset| recent.granule_to_give(offset));
        assert_eq!(given, [None, None, Some(0), None, Some(3 * GRANULE)]);
        // Pages here and there give nothing.
        for granule in 10..1000 {
            assert_eq!(recent.granule_to_give(granule * GRANULE), None);
        }
    }
}
