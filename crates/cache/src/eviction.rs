//! Keeps a cache within its size.

use std::{
    fs::File,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
};

use rustix::{
    fs::{FlockOperation, flock, fstatvfs},
    io::Errno,
};
use verimount_source::{FileId, GRANULE};

use crate::{
    CacheError, Stored,
    cache::{Shared, sort_by_use},
    object::Inner,
};

/// The most bytes that a process writes before it looks at the size again.
const MAX_GRANT: u64 = 8 << 20;

/// For how many processes that write at the same time there is room.
const PROCESSES: u64 = 4;

/// What is always left free: this part of the file system, or this many bytes if that is less.
const FREE_PART: u64 = 20;
const MAX_FREE: u64 = 1 << 30;

/// The bytes of a file system.
struct Space {
    total: u64,
    /// Those that may be used.
    free: u64,
}

/// How many bytes may be written now. Evicts others before, if that is necessary. If another process is evicting,
/// there are none.
pub(crate) fn grant(cache: &Arc<Shared>) -> Result<u64, CacheError> {
    let directory = &cache.directory;
    match flock(directory.fd(), FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(0),
        Err(errno) => return Err(directory.failed("", errno)),
    }
    let granted = grant_locked(cache);
    let _ = flock(directory.fd(), FlockOperation::Unlock);
    granted
}

fn grant_locked(cache: &Arc<Shared>) -> Result<u64, CacheError> {
    let mut stored = cache.stored()?;
    let total: u64 = stored.iter().map(|stored| stored.allocated).sum();
    let space = Space::of(cache)?;
    let step = (cache.limit.min(space.total) / 16).clamp(GRANULE, MAX_GRANT);
    let over = (total + PROCESSES * step).saturating_sub(cache.limit);
    let needed = over.max(step.saturating_sub(space.free));
    if needed == 0 {
        return Ok(step);
    }
    sort_by_use(&mut stored);
    // More than is needed, so that this is rare.
    let freed = evict(cache, &stored, needed + step)?;
    cache.counters.evicted.fetch_add(freed, Relaxed);
    Ok(if freed >= needed { step } else { 0 })
}

impl Space {
    fn of(cache: &Shared) -> Result<Self, CacheError> {
        let stat = fstatvfs(cache.directory.fd());
        let stat = stat.map_err(|errno| cache.directory.failed("", errno))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let total = bytes(stat.f_blocks);
        let reserved = (total / FREE_PART).min(MAX_FREE);
        Ok(Self {
            total,
            free: bytes(stat.f_bavail).saturating_sub(reserved),
        })
    }
}

/// Removes objects that nobody uses, the least recently used first, and then parts of the others, until `needed` bytes are free.
fn evict(cache: &Arc<Shared>, stored: &[Stored], needed: u64) -> Result<u64, CacheError> {
    let mut freed = 0;
    let mut used = Vec::new();
    for stored in stored {
        if freed >= needed {
            break;
        }
        let name = stored.key.file_name(stored.part);
        let Ok(file) = cache.directory.open_file(&name, false) else {
            // Another process has removed it, or it is none of ours.
            continue;
        };
        if cache.directory.remove_unused(&name, &file)? {
            freed += stored.allocated;
        } else {
            used.push((stored.part, name, file));
        }
    }
    // Data first: without a tree, no data can be used.
    used.sort_by_key(|(part, ..)| *part);
    for (_, name, file) in used {
        if freed >= needed {
            break;
        }
        let own = own_object(cache, &file);
        let object = own.unwrap_or_else(|| Arc::new(Inner::new(cache, file, true)));
        let evicted = object.evict(needed - freed);
        freed += evicted.map_err(|error| cache.directory.failed(&name, error))?;
    }
    Ok(freed)
}

/// The object of this process that has the same file.
fn own_object(cache: &Shared, file: &File) -> Option<Arc<Inner>> {
    let id = |file: &File| file.metadata().ok().as_ref().map(FileId::of);
    let wanted = id(file)?;
    let objects = cache.objects.lock();
    let mut open = objects.values().filter_map(Weak::upgrade);
    open.find(|object| id(&object.file) == Some(wanted))
}
