use std::{
    fs::File,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rustix::{
    fs::{
        AtFlags, FallocateFlags, Mode, OFlags, fallocate, fstat, fstatfs, ftruncate, openat,
        unlinkat,
    },
    io::{Errno, fcntl_dupfd_cloexec, retry_on_intr},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create,
        fsconfig_set_string, fsmount, fsopen, open_tree,
    },
    param::page_size,
    system::sysinfo,
};
use verimount_helper::Task;
use verimount_nbd::memory_limit;
use verimount_sys::{holds_write_lease, release_lease, seclude_mount, take_write_lease};

use super::{
    pressure::Trigger,
    sealing::{seal, sealing},
};
use crate::errno::errno;

/// The largest page of the memory, in bytes: pieces of files that begin and end there are written without
/// clearing a page before.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// Memory for files that were verified: a tmpfs of huge pages that is mounted nowhere. It is the limit of what they
/// take.
///
/// No file in it has a name, none can be opened for writing once it is sealed, and this process keeps
/// none open: the kernel alone has it, as a backing file.
#[derive(Debug)]
pub struct ResidentMemory {
    /// Where files are made.
    writable: OwnedFd,
    /// The directory `writable`, through a mount by which nothing can be changed.
    read_only: OwnedFd,
    /// The most that files may take, in bytes.
    pub(super) limit: u64,
    names: AtomicU64,
    /// Where the kernel tells that memory is short, or why it does not.
    pub(super) pressure: Result<Arc<Trigger>, Errno>,
}

/// Why there is no memory for resident files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResidentError {
    /// This process may not have it.
    #[error("only root can keep files resident: {0}")]
    NotPermitted(#[source] io::Error),
    /// The system refuses.
    #[error("no memory for resident files: {0}")]
    Refused(#[source] io::Error),
    /// Nothing would fit.
    #[error("the limit for resident files is less than a page of {page} bytes")]
    NoRoom {
        /// The size of a page of memory.
        page: u64,
    },
    /// The machine has less memory.
    #[error(
        "the limit of {limit} bytes for resident files is above the machine's memory, {memory} bytes"
    )]
    AboveMemory {
        /// The limit that was asked for.
        limit: u64,
        /// The memory of the machine.
        memory: u64,
    },
    /// The control group of this process would not get as much memory.
    #[error(
        "the limit of {limit} bytes for resident files is above the memory limit of this process's control group, {group} bytes"
    )]
    AboveGroup {
        /// The limit that was asked for.
        limit: u64,
        /// The limit of the group.
        group: u64,
    },
}

impl ResidentMemory {
    /// Memory for files of at most `limit` bytes in all, each counted in whole pages.
    ///
    /// # Errors
    /// [`ResidentError`].
    pub fn new(limit: u64) -> Result<Self, ResidentError> {
        // A tmpfs would round up, and take 0 for no limit.
        let page = page_size() as u64;
        let limit = limit - limit % page;
        if limit == 0 {
            return Err(ResidentError::NoRoom { page });
        }
        let memory = machine_memory();
        if memory < limit {
            return Err(ResidentError::AboveMemory { limit, memory });
        }
        if let Some(group) = memory_limit().filter(|group| *group < limit) {
            return Err(ResidentError::AboveGroup { limit, group });
        }
        Self::make(limit).map_err(|errno| match errno {
            Errno::PERM | Errno::ACCESS => ResidentError::NotPermitted(errno.into()),
            errno => ResidentError::Refused(errno.into()),
        })
    }

    fn make(limit: u64) -> Result<Self, Errno> {
        let tmpfs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&tmpfs, "size", limit.to_string())?;
        // Files of one page each would need more of them than a tmpfs has by default.
        fsconfig_set_string(&tmpfs, "nr_inodes", "0")?;
        // No larger than what is in it: files of a few bytes would each take a huge page.
        fsconfig_set_string(&tmpfs, "huge", "within_size")?;
        fsconfig_set_string(&tmpfs, "mode", "0700")?;
        fsconfig_create(&tmpfs)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NOATIME;
        let writable = fsmount(&tmpfs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        let read_only = match read_only_clone(&writable) {
            // Before Linux 6.15, what is mounted nowhere cannot be cloned. Files are sealed nevertheless.
            Err(Errno::INVAL) => fcntl_dupfd_cloexec(&writable, 0)?,
            cloned => cloned?,
        };
        let memory = Self {
            writable,
            read_only,
            limit,
            names: AtomicU64::new(0),
            pressure: Trigger::new().map(Arc::new),
        };
        // What is not supported here is told now.
        memory.new_file()?.seal()?;
        Ok(memory)
    }

    /// A path by which this process reaches it, to be kept in a sandbox.
    pub fn path(&self) -> PathBuf {
        // Not by the number of the process: this one has another one in a namespace of its own.
        format!("/proc/self/fd/{}", self.writable.as_raw_fd()).into()
    }

    /// What the helper of a sandboxed process does with it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn task(&self) -> io::Result<Task> {
        Ok(sealing(fstat(&self.writable)?.st_dev))
    }

    /// The memory that a file of `size` bytes takes, in bytes.
    pub(super) fn taken_by(size: u64) -> u64 {
        let taken = size.checked_next_multiple_of(page_size() as u64);
        taken.unwrap_or(u64::MAX)
    }

    /// What is left of the limit, in bytes. Files that were given up count as long as they are mapped.
    pub(super) fn free(&self) -> u64 {
        fstatfs(&self.writable).map_or(0, |usage| {
            usage.f_bfree.saturating_mul(usage.f_bsize.unsigned_abs())
        })
    }

    /// A file that nobody else has open.
    pub(super) fn new_file(&self) -> Result<NewFile, Errno> {
        let name = self.names.fetch_add(1, Relaxed).to_string();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let writable = openat(&self.writable, &name, flags, Mode::RUSR)?;
        let path = OFlags::PATH | OFlags::CLOEXEC;
        let sealed = openat(&self.read_only, &name, path, Mode::empty());
        unlinkat(&self.writable, &name, AtFlags::empty())?;
        take_write_lease(&writable).map_err(|error| errno(&error))?;
        Ok(NewFile {
            writable: writable.into(),
            sealed: sealed?,
        })
    }
}

/// The memory of the machine, in bytes.
fn machine_memory() -> u64 {
    let info = sysinfo();
    info.totalram.saturating_mul(info.mem_unit.into())
}

/// A private mount of the same file system, by which nothing can be changed.
fn read_only_clone(mount: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let clone = open_tree(mount, c"", flags)?;
    seclude_mount(&clone, true).map_err(|error| errno(&error))?;
    Ok(clone)
}

/// A file that is being filled. A lease shows whether anybody else has opened it, as root can by way of
/// `/proc/PID/fd`.
#[derive(Debug)]
pub(super) struct NewFile {
    writable: File,
    sealed: OwnedFd,
}

impl NewFile {
    /// Takes the memory for `size` bytes.
    ///
    /// # Errors
    /// `ENOSPC` if the limit does not allow it.
    pub(super) fn reserve(&self, size: u64) -> Result<(), Errno> {
        // The size decides where there can be huge pages.
        ftruncate(&self.writable, size)?;
        retry_on_intr(|| fallocate(&self.writable, FallocateFlags::empty(), 0, size))
    }

    /// Writes at a position, any number of threads at once.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        let written = self.writable.write_all_at(bytes, offset);
        written.map_err(|error| errno(&error))
    }

    /// The file, open by path only. From now on nobody can write to it: it has no name, cannot be opened for writing, and is
    /// on a mount that cannot be written to.
    ///
    /// # Errors
    /// `EBUSY` if others have opened it, and may have changed it.
    pub(super) fn seal(&self) -> Result<OwnedFd, Errno> {
        // In this order: whoever opens it before waits for the lease to be released, which shows; later it fails.
        seal(&self.writable)?;
        if !holds_write_lease(&self.writable) {
            return Err(Errno::BUSY);
        }
        release_lease(&self.writable).map_err(|error| errno(&error))?;
        fcntl_dupfd_cloexec(&self.sealed, 0)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read, thread};

    use rustix::process::geteuid;
    use verimount_testkit::needs;

    use super::*;

    fn reopened(file: &impl AsRawFd, writes: bool) -> io::Result<fs::File> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        fs::OpenOptions::new().read(true).write(writes).open(path)
    }

    fn memory() -> Option<ResidentMemory> {
        geteuid()
            .is_root()
            .then(|| ResidentMemory::new(8 << 20).unwrap())
    }

    #[test]
    fn what_is_sealed_is_read_and_not_written() {
        let memory = needs!(memory());
        let file = memory.new_file().unwrap();
        file.reserve(5).unwrap();
        file.write(b"hello", 0).unwrap();
        let sealed = file.seal().unwrap();
        assert!(reopened(&file.writable, true).is_err());
        drop(file);
        assert!(reopened(&sealed, true).is_err());
        let mut content = String::new();
        reopened(&sealed, false)
            .unwrap()
            .read_to_string(&mut content)
            .unwrap();
        assert_eq!(content, "hello");
        assert_eq!(fs::read_dir(memory.path()).unwrap().count(), 0);
    }

    /// As root can while it is filled.
    #[test]
    fn what_others_have_opened_is_not_sealed() {
        let memory = needs!(memory());
        let file = memory.new_file().unwrap();
        let path = format!("/proc/self/fd/{}", file.writable.as_raw_fd());
        let opener = thread::spawn(move || {
            let opened = fs::OpenOptions::new().write(true).open(path);
            opened.is_ok()
        });
        while holds_write_lease(&file.writable) {
            thread::yield_now();
        }
        assert_eq!(file.seal().unwrap_err(), Errno::BUSY);
        drop(file);
        let _ = opener.join().unwrap();
    }

    #[test]
    fn the_limit_holds_and_what_is_dropped_is_free_again() {
        let memory = needs!(memory());
        let before = memory.free();
        assert!(before <= memory.limit);
        let file = memory.new_file().unwrap();
        assert_eq!(file.reserve(memory.limit + 1).unwrap_err(), Errno::NOSPC);
        file.reserve(6 << 20).unwrap();
        assert!(memory.free() <= before - (6 << 20));
        let sealed = file.seal().unwrap();
        drop(file);
        assert!(memory.free() <= before - (6 << 20));
        drop(sealed);
        assert_eq!(memory.free(), before);
    }
}
