//! The directories of an image that were used last.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use parking_lot::{Condvar, Mutex};
use verimount_source::ReadAt;

use crate::{Entries, Error, Limit, NodeId, Romfs};

/// How many directories are kept whatever their size, so that two that are listed at the same time
/// are each read once: with the most and longest names they take 310 MB.
const ALWAYS_KEPT: usize = 2;

/// Directories with more entries are read one at a time: all others, even if each thread reads one,
/// take less memory together than one of those may.
const LARGE: usize = 8192;

/// Directories that were read, each by one thread at a time.
pub(crate) struct Directories {
    /// How many bytes of them are kept.
    kept_bytes: usize,
    state: Mutex<State>,
    /// A directory was read, or could not be.
    settled: Condvar,
    /// Held while a large directory is read.
    large: Mutex<()>,
}

#[derive(Default)]
struct State {
    kept: HashMap<NodeId, Kept>,
    /// The keys of `kept` by when they were last used.
    by_use: BTreeMap<u64, NodeId>,
    /// Bytes of all in `kept`.
    bytes: usize,
    /// How often any was used.
    uses: u64,
    /// Directories that a thread is reading.
    coming: HashSet<NodeId>,
}

struct Kept {
    entries: Arc<Entries>,
    last_use: u64,
}

impl Directories {
    /// Keeps up to `kept_bytes` bytes of directories, or [`ALWAYS_KEPT`] that take more.
    pub(crate) fn new(kept_bytes: usize) -> Self {
        Self {
            kept_bytes,
            state: Mutex::default(),
            settled: Condvar::new(),
            large: Mutex::new(()),
        }
    }

    /// The entries of `directory`, which are read if they are not kept.
    ///
    /// # Errors
    /// As [`Romfs::entries`].
    pub(crate) fn get<S: ReadAt>(
        &self,
        image: &Romfs<S>,
        directory: NodeId,
    ) -> Result<Arc<Entries>, Error> {
        self.get_or_read(directory, || match image.entries_up_to(directory, LARGE) {
            Err(Error::Unsupported(Limit::DirectoryEntries)) => {
                let _turn = self.large.lock();
                image.entries(directory)
            }
            read => read,
        })
    }

    fn get_or_read(
        &self,
        directory: NodeId,
        read: impl FnOnce() -> Result<Entries, Error>,
    ) -> Result<Arc<Entries>, Error> {
        let mut state = self.state.lock();
        loop {
            if let Some(entries) = state.find(directory) {
                return Ok(entries);
            }
            if state.coming.insert(directory) {
                break;
            }
            self.settled.wait(&mut state);
        }
        drop(state);
        let _coming = Coming {
            directories: self,
            directory,
        };
        let entries = Arc::new(read()?);
        let mut state = self.state.lock();
        state.keep(directory, entries.clone());
        state.shrink_to(self.kept_bytes);
        Ok(entries)
    }
}

/// A directory that is being read, until this is dropped.
struct Coming<'a> {
    directories: &'a Directories,
    directory: NodeId,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.directories.state.lock().coming.remove(&self.directory);
        self.directories.settled.notify_all();
    }
}

impl State {
    /// A directory that is kept, which is thereby the one used last.
    fn find(&mut self, directory: NodeId) -> Option<Arc<Entries>> {
        let kept = self.kept.get_mut(&directory)?;
        self.by_use.remove(&kept.last_use);
        self.uses = self.uses.saturating_add(1);
        kept.last_use = self.uses;
        self.by_use.insert(kept.last_use, directory);
        Some(kept.entries.clone())
    }

    /// Keeps a directory that is not kept yet.
    fn keep(&mut self, directory: NodeId, entries: Arc<Entries>) {
        self.bytes = self.bytes.saturating_add(cost(&entries));
        self.uses = self.uses.saturating_add(1);
        let last_use = self.uses;
        self.by_use.insert(last_use, directory);
        self.kept.insert(directory, Kept { entries, last_use });
    }

    /// Forgets those that were not used for longest, until the rest takes no more than `limit`
    /// bytes.
    fn shrink_to(&mut self, limit: usize) {
        while self.bytes > limit && self.kept.len() > ALWAYS_KEPT {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                break;
            };
            if let Some(forgotten) = self.kept.remove(&oldest) {
                self.bytes = self.bytes.saturating_sub(cost(&forgotten.entries));
            }
        }
    }
}

/// How many bytes a directory takes with its place in [`State`].
fn cost(entries: &Entries) -> usize {
    const PLACE: usize = 2 * (size_of::<Kept>() + size_of::<(NodeId, u64, NodeId)>());
    entries.memory().saturating_add(PLACE)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use verimount_testkit::flat_romfs;

    use super::*;

    fn id(number: u32) -> NodeId {
        NodeId::from_raw(number * 16).unwrap()
    }

    fn entries(count: usize) -> Entries {
        let names: Vec<_> = (0..count).map(|number| format!("{number:0100}")).collect();
        let image = flat_romfs(names.iter().map(String::as_str));
        let image = Romfs::open(image).unwrap();
        image.entries(image.root()).unwrap()
    }

    /// Gets a directory of `count` entries, and says whether it had to be read.
    fn is_read(directories: &Directories, number: u32, count: usize) -> bool {
        let mut is_read = false;
        let read = || {
            is_read = true;
            Ok(entries(count))
        };
        let found = directories.get_or_read(id(number), read).unwrap();
        assert_eq!(found.len(), count);
        is_read
    }

    #[test]
    fn the_least_recently_used_directory_is_evicted() {
        let directories = Directories::new(3 * cost(&entries(100)));
        for number in 0..3 {
            assert!(is_read(&directories, number, 100));
        }
        assert!(!is_read(&directories, 0, 100));
        assert!(is_read(&directories, 3, 100));
        for kept in [0, 2, 3] {
            assert!(!is_read(&directories, kept, 100), "{kept}");
        }
        assert!(is_read(&directories, 1, 100));
        let state = directories.state.lock();
        assert_eq!(state.bytes, 3 * cost(&entries(100)));
        assert_eq!((state.kept.len(), state.by_use.len()), (3, 3));
    }

    #[test]
    fn two_directories_are_kept_whatever_their_size() {
        let directories = Directories::new(cost(&entries(10)));
        assert!(is_read(&directories, 0, 1000));
        assert!(is_read(&directories, 1, 1000));
        for _ in 0..3 {
            assert!(!is_read(&directories, 0, 1000));
            assert!(!is_read(&directories, 1, 1000));
        }
        assert!(is_read(&directories, 2, 10));
        assert!(is_read(&directories, 0, 1000));
    }

    #[test]
    fn a_directory_that_could_not_be_read_is_read_again() {
        let directories = Directories::new(1 << 20);
        let failed = directories.get_or_read(id(0), || Err(Error::NotRomfs));
        assert!(failed.is_err());
        let panicking = || directories.get_or_read(id(0), || panic!("as a test"));
        assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
        assert!(is_read(&directories, 0, 10));
    }
}
