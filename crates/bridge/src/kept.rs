use std::{
    collections::{HashSet, hash_map::RandomState},
    mem,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use quick_cache::{Lifecycle, UnitWeighter, sync::Cache};
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};

use crate::{NodeId, descriptors::max_kept};

/// Interval of the search for removed files. They are released at the second search, since somebody
/// who looked one up just before it was removed may be about to open it. A search takes a system
/// call per kept file: a few milliseconds for the largest number.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A bounded cache of files that nobody has open, kept for their next use. Releases the least
/// useful ones, and those that have lost their last name.
#[derive(Debug)]
pub(crate) struct KeptFiles<V> {
    files: Cache<NodeId, V, UnitWeighter, RandomState, CollectEvicted>,
    /// Whether a thread searches for removed files. It does as long as any file is kept.
    is_watched: AtomicBool,
}

/// A cached value that keeps a file.
pub(crate) trait KeepsFile: Clone + Send + Sync + 'static {
    /// The file, which may be open with `O_PATH` only.
    fn file(&self) -> BorrowedFd<'_>;
}

impl KeepsFile for Arc<OwnedFd> {
    fn file(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

/// Returns evicted files to the caller of `insert`, because closing them may need I/O.
#[derive(Debug, Clone, Copy)]
struct CollectEvicted;

impl<V> Lifecycle<NodeId, V> for CollectEvicted {
    type RequestState = Vec<(NodeId, V)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, node: NodeId, file: V) {
        evicted.push((node, file));
    }
}

impl<V: KeepsFile> KeptFiles<V> {
    /// A cache whose capacity depends on this process's limit of open files.
    pub(crate) fn new() -> Self {
        let capacity = max_kept();
        Self {
            files: Cache::with(
                capacity as usize,
                capacity,
                UnitWeighter,
                RandomState::new(),
                CollectEvicted,
            ),
            is_watched: AtomicBool::new(false),
        }
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<V> {
        self.files.get(&node)
    }

    /// Keeps a file. Returns evicted ones.
    pub(crate) fn insert(self: &Arc<Self>, node: NodeId, file: V) -> Vec<(NodeId, V)> {
        let mut evicted = Vec::new();
        self.files.insert_with_lifecycle(node, file, &mut evicted);
        if !self.is_watched.load(SeqCst) {
            self.watch();
        }
        evicted
    }

    pub(crate) fn remove(&self, node: NodeId) -> Option<V> {
        self.files.remove(&node).map(|(_, file)| file)
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Starts a thread that searches for removed files until no file is kept.
    fn watch(self: &Arc<Self>) {
        if self.is_watched.swap(true, SeqCst) {
            return;
        }
        let files = Arc::downgrade(self);
        let watch = move || {
            let mut removed = HashSet::new();
            loop {
                thread::sleep(LOOK_EVERY);
                match files.upgrade() {
                    Some(files) if files.look(&mut removed) => {}
                    _ => return,
                }
            }
        };
        let thread = thread::Builder::new().name("removed files".to_owned());
        if thread.spawn(watch).is_err() {
            // The next insertion tries again.
            self.is_watched.store(false, SeqCst);
        }
    }

    /// Releases files that were already `removed` at the last search, and sets `removed` to the
    /// others that are removed now. Whether this thread must search again.
    fn look(&self, removed: &mut HashSet<NodeId>) -> bool {
        let before = mem::take(removed);
        for (node, file) in self.files.iter() {
            if !is_removed(file.file()) {
                continue;
            }
            if before.contains(&node) {
                self.files.remove(&node);
            } else {
                removed.insert(node);
            }
        }
        if self.len() > 0 {
            return true;
        }
        self.is_watched.store(false, SeqCst);
        // A file inserted before the flag was cleared has started no thread.
        self.len() > 0 && !self.is_watched.swap(true, SeqCst)
    }
}

/// Whether a regular file has no name any more. Other types take little space, and some can be in
/// use without being open, such as a working directory.
fn is_removed(file: BorrowedFd<'_>) -> bool {
    // No need to ask a server: it does not keep a removed file for us.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(file, c"", flags, StatxFlags::TYPE | StatxFlags::NLINK);
    found.is_ok_and(|found| {
        found.stx_nlink == 0
            && FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn only_what_is_removed_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let kept = Arc::new(KeptFiles::new());
        for (number, name) in ["removed", "linked", "stays"].into_iter().enumerate() {
            fs::write(path(name), "").unwrap();
            let file = Arc::new(OwnedFd::from(File::open(path(name)).unwrap()));
            kept.insert(NodeId(number as u64), file);
        }
        fs::create_dir(path("directory")).unwrap();
        let directory = Arc::new(OwnedFd::from(File::open(path("directory")).unwrap()));
        kept.insert(NodeId(3), directory);
        fs::hard_link(path("linked"), path("other name")).unwrap();
        for name in ["removed", "linked"] {
            fs::remove_file(path(name)).unwrap();
        }
        fs::remove_dir(path("directory")).unwrap();
        let mut removed = HashSet::new();
        assert!(kept.look(&mut removed));
        assert!(kept.get(NodeId(0)).is_some());
        assert!(kept.look(&mut removed));
        let held = [0, 1, 2, 3].map(|number| kept.get(NodeId(number)).is_some());
        assert_eq!(held, [false, true, true, true]);
    }

    #[test]
    fn nobody_looks_where_nothing_is_kept() {
        let kept = Arc::new(KeptFiles::new());
        assert!(!kept.is_watched.load(SeqCst));
        kept.insert(NodeId(1), Arc::new(tempfile::tempfile().unwrap().into()));
        assert!(kept.is_watched.load(SeqCst));
        let mut removed = HashSet::new();
        assert!(kept.look(&mut removed));
        assert!(!kept.look(&mut removed));
        assert!(!kept.is_watched.load(SeqCst));
    }
}
