//! Keeps a cache within its size.

use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
};

use rustix::{
    fs::{FlockOperation, Stat, flock, fstatvfs},
    io::Errno,
};

use verimount_source::GRANULE;

use crate::{CacheError, Key, Part, cache::Shared, object};

/// The most bytes that a process writes before it looks at the size again.
const MAX_GRANT: u64 = 8 << 20;

/// For how many processes that write at the same time there is room.
const PROCESSES: u64 = 4;

/// What is always left free: this part of the file system, or this many bytes if that is less.
const FREE_PART: u64 = 20;
const MAX_FREE: u64 = 1 << 30;

/// An object as the directory shows it.
struct Candidate {
    name: String,
    part: Part,
    allocated: u64,
    /// When it was last used, in nanoseconds.
    used: (i64, u64),
}

/// The bytes of a file system.
struct Space {
    total: u64,
    /// Those that may be used.
    free: u64,
}

/// The bytes that a file takes on disk.
pub(crate) fn allocated(stat: &Stat) -> u64 {
    /// The unit of `st_blocks`.
    const BLOCK: u64 = 512;
    u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK
}

/// How many bytes may be written now. Evicts others before, if that is necessary. If another process is evicting,
/// there are none.
pub(crate) fn grant(cache: &Shared) -> Result<u64, CacheError> {
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

fn grant_locked(cache: &Shared) -> Result<u64, CacheError> {
    let mut candidates = candidates(cache)?;
    let total: u64 = candidates.iter().map(|candidate| candidate.allocated).sum();
    let space = Space::of(cache)?;
    let step = (cache.limit.min(space.total) / 16).clamp(GRANULE, MAX_GRANT);
    let over = (total + PROCESSES * step).saturating_sub(cache.limit);
    let needed = over.max(step.saturating_sub(space.free));
    if needed == 0 {
        return Ok(step);
    }
    candidates.sort_by_key(|candidate| candidate.used);
    // More than is needed, so that this is rare.
    let freed = evict(cache, &candidates, needed + step)?;
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

fn candidates(cache: &Shared) -> Result<Vec<Candidate>, CacheError> {
    let files = cache.directory.files()?.into_iter();
    let objects = files.filter_map(|(name, stat)| {
        let (_, part) = Key::of_file_name(&name)?;
        Some(Candidate {
            allocated: allocated(&stat),
            used: (stat.st_mtime, stat.st_mtime_nsec),
            name,
            part,
        })
    });
    Ok(objects.collect())
}

/// Removes objects that nobody uses, and then parts of the others, until `needed` bytes are free.
fn evict(cache: &Shared, candidates: &[Candidate], needed: u64) -> Result<u64, CacheError> {
    debug_assert!(candidates.is_sorted_by_key(|candidate| candidate.used));
    let mut freed = 0;
    let mut used = Vec::new();
    for candidate in candidates {
        if freed >= needed {
            break;
        }
        let Ok(file) = cache.directory.open_file(&candidate.name, false) else {
            // Another process has removed it, or it is none of ours.
            continue;
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let removed = cache.directory.remove(&candidate.name);
                removed.map_err(|error| cache.directory.failed(&candidate.name, error))?;
                freed += candidate.allocated;
            }
            Err(_) => used.push((candidate, file)),
        }
    }
    // Data first: without a tree, no data can be used.
    used.sort_by_key(|(candidate, _)| candidate.part);
    for (candidate, file) in used {
        if freed >= needed {
            break;
        }
        let own = own_object(cache, &file);
        let evicted = match &own {
            Some(own) => own.evict(needed - freed),
            None => object::evict(&file, &mut 0, needed - freed, |_| false, |_| {}),
        };
        freed += evicted.map_err(|error| cache.directory.failed(&candidate.name, error))?;
    }
    Ok(freed)
}

/// The object of this process that has the same file.
fn own_object(cache: &Shared, file: &File) -> Option<Arc<object::Inner>> {
    let id = |file: &File| {
        let metadata = file.metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let wanted = id(file)?;
    let objects = cache.objects.lock();
    let mut open = objects.values().filter_map(Weak::upgrade);
    open.find(|object| id(&object.file) == Some(wanted))
}
