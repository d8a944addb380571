use std::{
    cell::RefCell,
    collections::VecDeque,
    ffi::{CStr, OsStr},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    sync::{Mutex, PoisonError},
};

use rustix::{
    fs::{FileType, RawDir, SeekFrom, seek},
    io::Errno,
};

use crate::{Entry, node::NodeId};

/// How much of a directory is read at once, in bytes: about a thousand entries, which is as many as
/// a reply has room for.
const BATCH: usize = 32 << 10;

thread_local! {
    /// What the system reads entries into before they are taken apart.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(BATCH));
}

/// A directory that is open for listing. It is closed when this is dropped.
#[derive(Debug)]
pub struct OpenDirectory {
    node: NodeId,
    file: OwnedFd,
    stream: Mutex<Stream>,
}

/// A name that a directory lists.
#[derive(Debug)]
pub struct Listed<'a> {
    /// The name; `.` and `..` are listed, too.
    pub name: &'a OsStr,
    /// The inode number: its entry's, or what the directory tells.
    pub inode: u64,
    /// What the directory says that it is; [`FileType::Unknown`] if nothing.
    pub file_type: FileType,
    /// Where listing goes on after it: what the source's file system says, and for it to understand.
    pub next: u64,
    /// What it is, where that was asked for and can be told. It counts as one lookup.
    pub entry: Option<Entry>,
}

/// An entry as the directory has it.
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

/// How far a directory has been listed.
#[derive(Debug, Default)]
struct Stream {
    /// Entries that were read and not yet listed.
    pending: VecDeque<RawEntry>,
    /// Where the first of them is.
    position: u64,
    /// Whether anything was read.
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

    /// Gives entries from `position` on to `take`, until it says that it took one no more. It may
    /// not list the same directory.
    ///
    /// Not all that there are, but at least one if there is one: who wants more asks again. So the
    /// end is asked for once and not twice.
    pub(crate) fn list(
        &self,
        position: u64,
        take: &mut dyn FnMut(&RawEntry) -> bool,
    ) -> Result<(), Errno> {
        // Held during I/O: an open directory has but one position to read at.
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        // At the beginning it is read anew, so that what was made meanwhile is listed.
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
