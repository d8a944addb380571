//! A file system in memory. The kernel may not cache names and attributes, so that every access is a
//! request.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use rustix::{
    fs::{FallocateFlags, FileType, OFlags, RenameFlags, XattrFlags},
    io::{Errno, ReadWriteFlags},
};
use verimount_fuse::{
    Attr, Caller, Entry, EntryName, FileSystem, Generation, HELD, Handle, Held, Name, Names,
    NewFile, Node, NodeId, OpenFlags, Opened, Read, SetAttr, Write,
};

/// Reading a file with this name panics.
pub(crate) const PANIC: &str = "panic";

/// A read of a file with this name waits until [`MemoryFs::let_go`].
pub(crate) const SLOW: &str = "slow";

/// A read of a file with this name waits, too, and the kernel keeps none of its pages.
pub(crate) const SLOW_UNCACHED: &str = "slow uncached";

/// A lookup of this name waits, too.
pub(crate) const SLOW_LOOKUP: &str = "slow lookup";

/// An open of a file with this name waits, too.
pub(crate) const SLOW_OPEN: &str = "slow open";

/// An open of a file with this name is held, until it is to go on.
pub(crate) const HELD_OPEN: &str = "held open";

/// A write to a file with this name waits, too.
pub(crate) const SLOW_WRITE: &str = "slow write";

/// Making a file durable, or giving it space, waits, too, if its name begins like this.
pub(crate) const SLOW_STORAGE: &str = "slow storage";

/// A listing of the directory with this name waits, too.
pub(crate) const SLOW_DIRECTORY: &str = "slow directory";

#[derive(Default)]
pub(crate) struct MemoryFs {
    nodes: Mutex<Nodes>,
    /// The flags of each write.
    pub(crate) write_flags: Mutex<Vec<ReadWriteFlags>>,
    /// Of each read whether it was for the page cache.
    pub(crate) cached_reads: Mutex<Vec<bool>>,
    /// The number of open files.
    opens: AtomicUsize,
    slow: Mutex<Slow>,
    changed: Condvar,
    /// The requests that are held.
    pub(crate) held: Mutex<Vec<Held>>,
    /// The numbers of those that may go on.
    pub(crate) may_go_on: Mutex<HashSet<u64>>,
    /// Of how many the file system was told that they need not be held any more.
    pub(crate) let_go: AtomicUsize,
}

#[derive(Default)]
struct Slow {
    begun: usize,
    waiting: usize,
    let_go: bool,
}

#[derive(Default)]
struct Inode {
    mode: u32,
    /// The kernel's lookup count.
    lookups: u64,
    content: Vec<u8>,
    names: BTreeMap<OsString, NodeId>,
    xattrs: BTreeMap<OsString, Vec<u8>>,
}

struct Nodes {
    all: HashMap<NodeId, Inode>,
    last: NodeId,
    generation: Generation,
}

impl Default for Nodes {
    fn default() -> Self {
        let root = Inode {
            mode: FileType::Directory.as_raw_mode() | 0o755,
            ..Default::default()
        };
        Self {
            all: HashMap::from([(NodeId::ROOT, root)]),
            last: NodeId::ROOT,
            generation: Generation::random(),
        }
    }
}

impl Nodes {
    fn get(&mut self, node: NodeId) -> Result<&mut Inode, Errno> {
        self.all.get_mut(&node).ok_or(Errno::STALE)
    }

    fn find(&mut self, parent: NodeId, name: &OsStr) -> Result<NodeId, Errno> {
        let found = self.get(parent)?.names.get(name);
        found.copied().ok_or(Errno::NOENT)
    }

    fn make(&mut self, parent: NodeId, name: &OsStr, mode: u32) -> Result<NodeId, Errno> {
        if self.find(parent, name).is_ok() {
            return Err(Errno::EXIST);
        }
        let made = NodeId(self.last.0 + 1);
        let node = Inode {
            mode,
            ..Default::default()
        };
        self.all.insert(made, node);
        self.get(parent)?.names.insert(name.to_owned(), made);
        self.last = made;
        Ok(made)
    }

    fn attr(&mut self, node: NodeId) -> Result<Attr, Errno> {
        let found = self.get(node)?;
        Ok(Attr {
            ino: node.0,
            mode: found.mode,
            size: found.content.len() as u64,
            nlink: 1,
            blksize: 4096,
            ..Default::default()
        })
    }

    /// The entry of a file, whose lookup count is incremented.
    fn entry(&mut self, node: NodeId) -> Result<Entry, Errno> {
        self.get(node)?.lookups += 1;
        Ok(Entry {
            node: Some(Node {
                id: node,
                generation: self.generation,
            }),
            attr: self.attr(node)?,
            entry_valid: Duration::ZERO,
            attr_valid: Duration::ZERO,
        })
    }

    fn list(&mut self, node: NodeId) -> Result<Vec<(OsString, NodeId)>, Errno> {
        let names = &self.get(node)?.names;
        Ok(names
            .iter()
            .map(|(name, node)| (name.clone(), *node))
            .collect())
    }
}

impl MemoryFs {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap()
    }

    /// How many files besides the root the kernel knows.
    pub(crate) fn remembered(&self) -> usize {
        let nodes = self.nodes();
        nodes.all.values().filter(|node| node.lookups > 0).count()
    }

    /// Makes a file or directory that the kernel does not know.
    pub(crate) fn make(&self, parent: NodeId, name: &str, kind: FileType) -> NodeId {
        let mode = kind.as_raw_mode() | 0o755;
        let made = self.nodes().make(parent, OsStr::new(name), mode);
        made.unwrap()
    }

    /// The kernel's lookup count of a file.
    pub(crate) fn lookups(&self, node: NodeId) -> u64 {
        self.nodes().get(node).unwrap().lookups
    }

    /// The number of open files.
    pub(crate) fn opens(&self) -> usize {
        self.opens.load(SeqCst)
    }

    /// Whether a file has this name in the root.
    fn is(&self, node: NodeId, name: &str) -> bool {
        self.nodes().find(NodeId::ROOT, OsStr::new(name)) == Ok(node)
    }

    /// Waits until `count` slow operations, such as those of [`SLOW`], have begun.
    pub(crate) fn await_slow(&self, count: usize) {
        let slow = self.slow.lock().unwrap();
        let waits = |slow: &mut Slow| slow.begun < count;
        drop(self.changed.wait_while(slow, waits).unwrap());
    }

    /// How many slow operations have begun.
    pub(crate) fn slow_count(&self) -> usize {
        self.slow.lock().unwrap().begun
    }

    /// Lets all slow operations finish, now and later.
    pub(crate) fn let_go(&self) {
        self.slow.lock().unwrap().let_go = true;
        self.changed.notify_all();
    }

    /// Lets the waiting operations finish. Later ones wait again, and are counted from zero.
    pub(crate) fn let_go_and_hold(&self) {
        self.let_go();
        let slow = self.slow.lock().unwrap();
        let is_waiting = |slow: &mut Slow| slow.waiting > 0;
        *self.changed.wait_while(slow, is_waiting).unwrap() = Slow::default();
    }

    fn wait_slowly(&self) {
        let mut slow = self.slow.lock().unwrap();
        slow.begun += 1;
        slow.waiting += 1;
        self.changed.notify_all();
        let mut slow = self.changed.wait_while(slow, |slow| !slow.let_go).unwrap();
        slow.waiting -= 1;
        self.changed.notify_all();
    }
}

impl FileSystem for MemoryFs {
    type Scratch = Vec<u8>;

    fn held(&self, held: Held) {
        self.held.lock().unwrap().push(held);
    }

    fn let_go(&self, _: u64) {
        self.let_go.fetch_add(1, SeqCst);
    }

    fn lookup(&self, _: Caller, (parent, name): EntryName<'_>) -> Result<Entry, Errno> {
        if name == SLOW_LOOKUP {
            self.wait_slowly();
        }
        let mut nodes = self.nodes();
        let node = nodes.find(parent, name)?;
        nodes.entry(node)
    }

    fn forget(&self, node: NodeId, count: u64) {
        if let Ok(node) = self.nodes().get(node) {
            node.lookups = node
                .lookups
                .checked_sub(count)
                .expect("forgotten too often");
        }
    }

    fn getattr(&self, node: NodeId) -> Result<(Attr, Duration), Errno> {
        Ok((self.nodes().attr(node)?, Duration::ZERO))
    }

    fn setattr(
        &self,
        _: Caller,
        node: NodeId,
        changes: &SetAttr,
        _: Option<Handle>,
    ) -> Result<(Attr, Duration), Errno> {
        let mut nodes = self.nodes();
        if let Some(size) = changes.size {
            nodes.get(node)?.content.resize(size as usize, 0);
        }
        Ok((nodes.attr(node)?, Duration::ZERO))
    }

    fn mkdir(&self, (parent, name): EntryName<'_>, new: NewFile) -> Result<Entry, Errno> {
        let mut nodes = self.nodes();
        let mode = FileType::Directory.as_raw_mode() | new.mode;
        let node = nodes.make(parent, name, mode)?;
        nodes.entry(node)
    }

    fn create(
        &self,
        (parent, name): EntryName<'_>,
        new: NewFile,
        _: OFlags,
    ) -> Result<(Entry, Opened), Errno> {
        let mut nodes = self.nodes();
        let node = nodes.make(parent, name, new.mode)?;
        self.opens.fetch_add(1, SeqCst);
        Ok((nodes.entry(node)?, OPENED))
    }

    fn symlink(
        &self,
        _: Caller,
        (parent, name): EntryName<'_>,
        target: &OsStr,
    ) -> Result<Entry, Errno> {
        let mut nodes = self.nodes();
        let node = nodes.make(parent, name, FileType::Symlink.as_raw_mode() | 0o777)?;
        nodes.get(node)?.content = target.as_bytes().to_vec();
        nodes.entry(node)
    }

    fn readlink<'s>(&self, node: NodeId, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], Errno> {
        scratch.clone_from(&self.nodes().get(node)?.content);
        Ok(scratch)
    }

    fn unlink(&self, _: Caller, (parent, name): EntryName<'_>) -> Result<(), Errno> {
        let names = &mut self.nodes();
        let removed = names.get(parent)?.names.remove(name);
        removed.map(drop).ok_or(Errno::NOENT)
    }

    fn rename(
        &self,
        _: Caller,
        from: EntryName<'_>,
        to: EntryName<'_>,
        _: RenameFlags,
    ) -> Result<(), Errno> {
        let mut nodes = self.nodes();
        let node = nodes.find(from.0, from.1)?;
        nodes.get(from.0)?.names.remove(from.1);
        nodes.get(to.0)?.names.insert(to.1.to_owned(), node);
        Ok(())
    }

    fn open(&self, caller: Caller, node: NodeId, _: OFlags) -> Result<Opened, Errno> {
        let may_go_on = || self.may_go_on.lock().unwrap().remove(&caller.request);
        if self.is(node, HELD_OPEN) && !may_go_on() {
            return Err(HELD);
        }
        if self.is(node, SLOW_OPEN) {
            self.wait_slowly();
        }
        self.opens.fetch_add(1, SeqCst);
        let mut opened = OPENED;
        let is_uncached = self.is(node, SLOW_UNCACHED);
        opened.flags.set(OpenFlags::DIRECT_IO, is_uncached);
        Ok(opened)
    }

    fn release(&self, _: Handle) {
        self.opens.fetch_sub(1, SeqCst);
    }

    fn read<'s>(
        &self,
        node: NodeId,
        read: Read,
        scratch: &'s mut Vec<u8>,
    ) -> Result<&'s [u8], Errno> {
        assert!(!self.is(node, PANIC), "as the test wants it");
        if self.is(node, SLOW) || self.is(node, SLOW_UNCACHED) {
            self.wait_slowly();
        }
        self.cached_reads.lock().unwrap().push(read.is_cached);
        let mut nodes = self.nodes();
        let content = &nodes.get(node)?.content;
        let start = content.len().min(read.offset as usize);
        let end = content.len().min(start + read.size as usize);
        scratch.clear();
        scratch.extend_from_slice(&content[start..end]);
        Ok(scratch)
    }

    fn write(&self, node: NodeId, write: Write, data: &[u8]) -> Result<u32, Errno> {
        if self.is(node, SLOW_WRITE) {
            self.wait_slowly();
        }
        self.write_flags.lock().unwrap().push(write.flags);
        let mut nodes = self.nodes();
        let content = &mut nodes.get(node)?.content;
        let start = write.offset as usize;
        let end = start + data.len();
        content.resize(content.len().max(end), 0);
        content[start..end].copy_from_slice(data);
        Ok(data.len() as u32)
    }

    fn fsync(&self, node: NodeId, _: Handle, _: bool) -> Result<(), Errno> {
        let names = self.nodes().list(NodeId::ROOT)?;
        let is_slow = |(name, listed): &(OsString, NodeId)| {
            *listed == node && name.as_bytes().starts_with(SLOW_STORAGE.as_bytes())
        };
        if names.iter().any(is_slow) {
            self.wait_slowly();
        }
        Ok(())
    }

    fn fallocate(
        &self,
        node: NodeId,
        handle: Handle,
        _: u64,
        _: u64,
        _: FallocateFlags,
    ) -> Result<(), Errno> {
        self.fsync(node, handle, false)
    }

    fn readdir(&self, node: NodeId, position: u64, names: &mut Names) -> Result<(), Errno> {
        let wants_entries = names.wants_entries();
        if wants_entries && self.is(node, SLOW_DIRECTORY) {
            self.wait_slowly();
        }
        let mut nodes = self.nodes();
        let all = (1..).zip(nodes.list(node)?).skip(position as usize);
        for (next, (name, node)) in all {
            let entry = wants_entries.then(|| nodes.entry(node)).transpose()?;
            let mode = nodes.get(node)?.mode;
            let is_added = names.add(named(&name, node, mode, next), || entry.expect("as wanted"));
            if !is_added {
                if wants_entries {
                    // The kernel does not increment its lookup count.
                    nodes.get(node)?.lookups -= 1;
                }
                break;
            }
        }
        Ok(())
    }

    fn setxattr(
        &self,
        _: Caller,
        node: NodeId,
        name: &OsStr,
        value: &[u8],
        _: XattrFlags,
    ) -> Result<(), Errno> {
        let mut nodes = self.nodes();
        let xattrs = &mut nodes.get(node)?.xattrs;
        xattrs.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn getxattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        let mut nodes = self.nodes();
        let value = nodes.get(node)?.xattrs.get(name);
        value.cloned().ok_or(Errno::NODATA)
    }

    fn listxattr(&self, _: Caller, node: NodeId) -> Result<Vec<u8>, Errno> {
        let mut nodes = self.nodes();
        let names = nodes.get(node)?.xattrs.keys();
        Ok(names
            .flat_map(|name| [name.as_bytes(), &[0]].concat())
            .collect())
    }

    fn removexattr(&self, _: Caller, node: NodeId, name: &OsStr) -> Result<(), Errno> {
        let mut nodes = self.nodes();
        let removed = nodes.get(node)?.xattrs.remove(name);
        removed.map(drop).ok_or(Errno::NODATA)
    }
}

const OPENED: Opened = Opened {
    handle: Handle(0),
    flags: OpenFlags::empty(),
    backing: 0,
};

fn named(name: &OsStr, node: NodeId, mode: u32, next: u64) -> Name<'_> {
    Name {
        name,
        ino: node.0,
        mode,
        next,
    }
}
