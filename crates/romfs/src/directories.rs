//! The directories of an image that were used last.

use std::sync::Arc;

use quick_cache::Weighter;
use verimount_source::{Kept, ReadAt, keep};
use verimount_sync::Mutex;

use crate::{Entries, Error, Limit, NodeId, Romfs};

/// How many bytes a directory usually takes.
const USUAL: u64 = 4 << 10;

/// Directories with more entries are read one at a time: all others, even if each thread reads one,
/// take less memory together than one of those may.
const LARGE: usize = 8192;

/// Directories that were read, each by one thread at a time.
pub(crate) struct Directories {
    kept: Kept<NodeId, Arc<Entries>, Memory>,
    /// Held while a large directory is read.
    large: Mutex<()>,
}

impl Directories {
    /// Keeps up to `bytes` bytes of directories, or two that take more.
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            kept: keep(bytes, USUAL, Memory { most: bytes / 2 }),
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
        let read = || Ok(Arc::new(read()?));
        self.kept.get_or_insert_with(&directory, read)
    }
}

/// Weighs directories by the bytes that they take with their places in a table.
#[derive(Clone)]
struct Memory {
    /// The most that counts: two directories are kept whatever their size, so that two that are listed at the same
    /// time are each read once. With the most and longest names they take 310 MB.
    most: u64,
}

impl Weighter<NodeId, Arc<Entries>> for Memory {
    fn weight(&self, _: &NodeId, entries: &Arc<Entries>) -> u64 {
        const PLACE: usize = 128;
        let bytes = entries.memory().saturating_add(PLACE);
        u64::try_from(bytes).unwrap_or(u64::MAX).min(self.most)
    }
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
    fn directories_are_kept_as_far_as_there_is_room() {
        let weighter = Memory { most: u64::MAX };
        let cost = weighter.weight(&id(0), &Arc::new(entries(100)));
        let directories = Directories::new(4 * cost);
        for _ in 0..2 {
            for number in 0..100 {
                assert!(is_read(&directories, number, 100));
                assert!(!is_read(&directories, number, 100));
                assert!(directories.kept.weight() <= 4 * cost);
            }
        }
    }

    #[test]
    fn two_directories_are_kept_whatever_their_size() {
        let directories = Directories::new(4 << 10);
        assert!(is_read(&directories, 0, 1000));
        assert!(is_read(&directories, 1, 1000));
        for _ in 0..3 {
            assert!(!is_read(&directories, 0, 1000));
            assert!(!is_read(&directories, 1, 1000));
        }
        assert!(is_read(&directories, 2, 1000));
        assert_eq!(directories.kept.len(), 2);
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
