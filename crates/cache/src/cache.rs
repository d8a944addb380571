use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    time::{Duration, Instant, SystemTime},
};

use rustix::fs::fstatvfs;
use verimount_sync::Mutex;

use crate::{
    CacheError, CacheStats, Key, Object, Part,
    counters::Counters,
    directory::Directory,
    eviction,
    object::{self, punch},
};

/// The size of a cache if none is given, unless that is more than a tenth of its file system.
const DEFAULT_SIZE: u64 = 10 << 30;

/// The unit of `st_blocks`, in bytes.
const BLOCK: u64 = 512;

/// How long nothing is written after a failure.
const RESPITE: Duration = Duration::from_secs(60);

/// A directory in which parts of files are kept. Clones are the same cache.
#[derive(Debug, Clone)]
pub struct Cache(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) directory: Directory,
    /// The most bytes that its files may have on disk.
    pub(crate) limit: u64,
    pub(crate) counters: Counters,
    /// The open objects of this process, by the name of their file. What several need is open once.
    pub(crate) objects: Mutex<HashMap<String, Weak<object::Inner>>>,
    room: Mutex<Room>,
}

#[derive(Debug, Default)]
struct Room {
    /// Bytes that this process may write before it looks at the size again.
    granted: u64,
    /// Nothing is written before.
    rests_until: Option<Instant>,
}

/// An object of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// Its key.
    pub key: Key,
    /// Which of the key's files it is.
    pub part: Part,
    /// The size of what it is a copy of, in bytes.
    pub size: u64,
    /// The bytes that it takes on disk.
    pub allocated: u64,
    /// When it was last opened or written.
    pub used: SystemTime,
}

/// What was removed from a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Cleared {
    /// Objects.
    pub objects: u64,
    /// The bytes that they took on disk.
    pub bytes: u64,
}

impl Cache {
    /// Opens the cache in the directory `path`, which is created if it does not exist. It belongs to the calling
    /// user, and nobody else may write to it. The files in it may take up to `size` bytes on disk: by default 10 GiB,
    /// or a tenth of the file system if that is less. Nothing is written while less than 5 % of the file system,
    /// or 1 GiB, is free.
    ///
    /// # Errors
    /// Any [`CacheError`].
    pub fn open(path: impl AsRef<Path>, size: Option<u64>) -> Result<Self, CacheError> {
        let directory = Directory::open(path.as_ref())?;
        let limit = match size {
            Some(size) => size,
            None => {
                let stat = fstatvfs(directory.fd()).map_err(|errno| directory.failed("", errno))?;
                DEFAULT_SIZE.min(stat.f_blocks.saturating_mul(stat.f_frsize) / 10)
            }
        };
        Ok(Self(Arc::new(Shared {
            directory,
            limit,
            counters: Counters::default(),
            objects: Mutex::default(),
            room: Mutex::default(),
        })))
    }

    /// The directory with its files.
    pub fn path(&self) -> &Path {
        self.0.directory.path()
    }

    /// The most bytes that its files may take on disk.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// What this process did with it so far.
    pub fn stats(&self) -> CacheStats {
        self.0.counters.stats()
    }

    /// The object of a file of `size` bytes, which is created if it does not exist. `None` if that fails, which is
    /// logged and counted: the file can then be read, but is not kept.
    pub fn object(&self, key: &Key, part: Part, size: u64) -> Option<Object> {
        let object = self.opened(key.file_name(part), true).and_then(|object| {
            object.set_size(size)?;
            Ok(object)
        });
        match object {
            Ok(object) => Some(object),
            Err(error) => {
                self.0.counters.failures.fetch_add(1, Relaxed);
                tracing::warn!(%error, "nothing is kept in the cache");
                None
            }
        }
    }

    /// An object that exists.
    pub fn existing(&self, key: &Key, part: Part) -> Option<Object> {
        self.opened(key.file_name(part), false).ok()
    }

    fn opened(&self, name: String, creates: bool) -> Result<Object, CacheError> {
        let mut objects = self.0.objects.lock();
        let known = objects.get(&name).and_then(Weak::upgrade);
        let object = match known.filter(|known| self.0.directory.is_named(&name, &known.file)) {
            Some(known) => Object(known),
            None => Object::open(&self.0, &name, creates)?,
        };
        object.was_used();
        objects.retain(|_, object| object.strong_count() > 0);
        objects.insert(name, Arc::downgrade(&object.0));
        Ok(object)
    }

    /// All objects, the least recently used first.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn stored(&self) -> Result<Vec<Stored>, CacheError> {
        let mut stored = self.0.stored()?;
        sort_by_use(&mut stored);
        Ok(stored)
    }

    /// Removes all objects. Those in use become empty.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn clear(&self) -> Result<Cleared, CacheError> {
        let mut cleared = Cleared::default();
        for stored in self.stored()? {
            let name = stored.key.file_name(stored.part);
            let file = self.0.directory.open_file(&name, false)?;
            if !self.0.directory.remove_unused(&name, &file)? {
                let punched = punch(&file, 0, stored.size.max(1));
                punched.map_err(|error| self.0.directory.failed(&name, error))?;
            }
            cleared.objects += 1;
            cleared.bytes += stored.allocated;
        }
        Ok(cleared)
    }
}

/// The least recently used first.
pub(crate) fn sort_by_use(stored: &mut [Stored]) {
    stored.sort_by(|a, b| (a.used, &a.key, a.part).cmp(&(b.used, &b.key, b.part)));
}

impl Shared {
    /// All objects.
    pub(crate) fn stored(&self) -> Result<Vec<Stored>, CacheError> {
        let files = self.directory.files()?;
        let stored = files.into_iter().filter_map(|(name, stat)| {
            let (key, part) = Key::of_file_name(&name)?;
            let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
            let used = Duration::new(seconds, u32::try_from(stat.st_mtime_nsec).unwrap_or(0));
            Some(Stored {
                key,
                part,
                size: u64::try_from(stat.st_size).ok()?,
                allocated: u64::try_from(stat.st_blocks).ok()? * BLOCK,
                used: SystemTime::UNIX_EPOCH.checked_add(used)?,
            })
        });
        Ok(stored.collect())
    }

    /// Whether this many bytes may be written now. Evicts others if necessary.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> bool {
        let mut room = self.room.lock();
        if room.rests_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        if room.granted < bytes {
            match eviction::grant(self) {
                Ok(granted) => room.granted = granted,
                Err(error) => {
                    tracing::warn!(%error, "evicting from the cache");
                    self.counters.failures.fetch_add(1, Relaxed);
                    drop(room);
                    self.rest();
                    return false;
                }
            }
        }
        let is_enough = room.granted >= bytes;
        if is_enough {
            room.granted -= bytes;
        }
        is_enough
    }

    /// Writes nothing for a while.
    pub(crate) fn rest(&self) {
        let mut room = self.room.lock();
        room.granted = 0;
        room.rests_until = Some(Instant::now() + RESPITE);
    }
}
