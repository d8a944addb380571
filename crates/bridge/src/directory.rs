use std::{
    cell::RefCell,
    collections::VecDeque,
    ffi::{CStr, OsStr},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

use rustix::{
    fs::{FileType, RawDir, SeekFrom, seek},
    io::Errno,
};
use verimount_sync::Mutex;

use crate::NodeId;

/// How much of a directory is read at once, in bytes: about a thousand entries, as many as fit into
/// a reply.
const BATCH: usize = 32 << 10;

thread_local! {
    /// Buffer for `getdents64`.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(BATCH));
}

/// A directory that is open for listing, closed on drop.
#[derive(Debug)]
pub struct OpenDirectory {
    node: NodeId,
    file: OwnedFd,
    stream: Mutex<Stream>,
}

/// An entry as read from the directory.
#[derive(Debug)]
pub(crate) struct RawEntry {
    pub(crate) name: Box<CStr>,
    pub(crate) inode: u64,
    pub(crate) file_type: FileType,
    pub(crate) next: u64,
}

impl RawEntry {
    pub(crate) fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }
}

/// The state of listing a directory.
#[derive(Debug, Default)]
struct Stream {
    /// Entries that were read and not yet listed.
    pending: VecDeque<RawEntry>,
    /// Position of the first pending entry.
    position: u64,
    /// Whether any entry was read.
    is_used: bool,
}

impl OpenDirectory {
    pub(crate) fn new(node: NodeId, file: OwnedFd) -> Self {
        let stream = Mutex::default();
        Self { node, file, stream }
    }

    /// Which directory it is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Passes entries from `position` on to `take`, until it returns false for one. `take` must not
    /// list the same directory.
    ///
    /// Passes at least one entry if there is one, but not necessarily all; call again for more.
    /// This way, the end of the directory is read once and not twice.
    pub(crate) fn list(
        &self,
        position: u64,
        take: &mut dyn FnMut(&RawEntry) -> bool,
    ) -> Result<(), Errno> {
        // Held during I/O: an open directory has a single read position.
        let mut stream = self.stream.lock();
        // At the beginning read again, so that new entries are listed.
        if stream.position != position || (position == 0 && stream.is_used) {
            stream.pending.clear();
            seek(&self.file, SeekFrom::Start(position))?;
            stream.position = position;
        }
        if stream.pending.is_empty() {
            stream.is_used = true;
            self.read(&mut stream.pending)?;
        }
        while let Some(entry) = stream.pending.front() {
            if !take(entry) {
                break;
            }
            stream.position = entry.next;
            stream.pending.pop_front();
        }
        Ok(())
    }

    fn read(&self, entries: &mut VecDeque<RawEntry>) -> Result<(), Errno> {
        BUFFER.with_borrow_mut(|buffer| {
            let spare: &mut [MaybeUninit<u8>] = buffer.spare_capacity_mut();
            let mut batch = RawDir::new(&self.file, spare);
            while let Some(entry) = batch.next() {
                let entry = match entry {
                    Ok(entry) => entry,
                    // The directory was removed: it has no entries any more.
                    Err(Errno::NOENT) => break,
                    Err(errno) => return Err(errno),
                };
                entries.push_back(RawEntry {
                    name: entry.file_name().into(),
                    inode: entry.ino(),
                    file_type: entry.file_type(),
                    next: entry.next_entry_cookie(),
                });
                if batch.is_buffer_empty() {
                    break;
                }
            }
            Ok(())
        })
    }
}
