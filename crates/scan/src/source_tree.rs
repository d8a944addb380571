//! A directory tree in memory, without its contents.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fmt,
    fs::File,
    iter,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Inode, InodeId, InodeKind, Losses, Observer, XattrStore, archive::ArchiveFile};

/// The most entries of a tree: their numbers have 32 bits.
pub(crate) const MAX_ENTRIES: usize = u32::MAX as usize - 1;

/// A tree in walk order: the root first, each directory before its entries, entries by the bytes of their
/// names.
///
/// It takes some 150 bytes of memory for each entry, and its name.
#[derive(Debug)]
pub struct SourceTree {
    /// The path of the directory or archive, for messages only.
    root: PathBuf,
    pub(crate) origin: Origin,
    entries: Vec<EntryRecord>,
    /// The names of all entries, back to back.
    names: Vec<u8>,
    inodes: Vec<Inode>,
    pub(crate) xattrs: XattrStore,
    /// The targets of the symbolic links that were followed, by the entries that are what they lead to.
    pub(crate) followed: HashMap<EntryId, Box<[u8]>>,
    pub(crate) left_out: Vec<PathBuf>,
    pub(crate) losses: Losses,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// Where the contents of a tree are read from.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The root directory, relative to which everything is read.
    Directory(File),
    Archive(ArchiveFile),
}

/// An entry.
#[derive(Debug)]
struct EntryRecord {
    inode: InodeId,
    /// Its directory; the root itself for the root.
    parent: EntryId,
    /// The end of what is below it: the first entry in walk order that is not.
    end: u32,
    /// Where its name starts. The name ends where the next one starts.
    name: usize,
}

/// The number of an entry in its tree. They are numbered in walk order, from 0 for the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub(crate) u32);

/// An entry of a tree: a name, and the inode that has it.
#[derive(Clone, Copy)]
pub struct Entry<'t> {
    tree: &'t SourceTree,
    id: EntryId,
}

impl EntryId {
    /// The root.
    pub const ROOT: Self = Self(0);

    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl SourceTree {
    /// A tree without entries, of what is at this path.
    pub(crate) fn new(root: &Path, origin: Origin) -> Self {
        Self {
            root: root.to_owned(),
            origin,
            entries: Vec::new(),
            names: Vec::new(),
            inodes: Vec::new(),
            xattrs: XattrStore::default(),
            followed: HashMap::new(),
            left_out: Vec::new(),
            losses: Losses::default(),
            observer: None,
        }
    }

    /// The path of the directory or archive.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The root directory.
    pub fn root(&self) -> Entry<'_> {
        self.entry(EntryId::ROOT)
    }

    /// The entry with this number.
    pub fn entry(&self, id: EntryId) -> Entry<'_> {
        Entry { tree: self, id }
    }

    /// Number of entries, with the root.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// All entries in walk order, with the root.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = Entry<'_>> + Clone {
        // There are no more than `MAX_ENTRIES`.
        (0..self.entries.len() as u32).map(|number| self.entry(EntryId(number)))
    }

    /// All inodes, by their numbers.
    pub fn inodes(&self) -> &[Inode] {
        &self.inodes
    }

    /// The inode with this number.
    pub fn inode(&self, id: InodeId) -> &Inode {
        &self.inodes[id.index()]
    }

    /// The extended attributes.
    pub fn xattrs(&self) -> &XattrStore {
        &self.xattrs
    }

    /// The paths below the root that were left out because of [`Options::ignored`](crate::Options::ignored).
    pub fn left_out(&self) -> &[PathBuf] {
        &self.left_out
    }

    /// What an archive has that no format can store.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Has `observer` shown all that is read of contents from now on.
    pub fn observe(&mut self, observer: Arc<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// The number that the next entry will have.
    pub(crate) fn next_entry(&self) -> EntryId {
        EntryId(self.entries.len() as u32)
    }

    /// Adds an inode, whose first name is added next.
    pub(crate) fn push_inode(&mut self, inode: Inode) -> InodeId {
        // There are no more inodes than entries.
        let id = InodeId(self.inodes.len() as u32);
        self.inodes.push(inode);
        id
    }

    /// Adds an entry, for now without anything below it.
    pub(crate) fn push_entry(&mut self, name: &[u8], parent: EntryId, inode: InodeId) -> EntryId {
        self.inodes[inode.index()].names += 1;
        self.push_record(name, parent, inode)
    }

    /// Adds an entry whose inode is not there before [`Self::complete`].
    pub(crate) fn push_record(&mut self, name: &[u8], parent: EntryId, inode: InodeId) -> EntryId {
        let id = self.next_entry();
        self.entries.push(EntryRecord {
            inode,
            parent,
            end: id.0 + 1,
            name: self.names.len(),
        });
        self.names.extend_from_slice(name);
        id
    }

    /// Adds the inodes of all entries, by their numbers.
    pub(crate) fn complete(&mut self, inodes: Vec<Inode>) {
        self.inodes = inodes;
        for inode in &mut self.inodes {
            inode.names = 0;
        }
        for (number, entry) in (0..).zip(&self.entries) {
            let inode = &mut self.inodes[entry.inode.index()];
            if inode.names == 0 {
                inode.first_name = EntryId(number);
            }
            inode.names += 1;
        }
    }

    /// Ends a directory: everything added since is below it.
    pub(crate) fn close(&mut self, directory: EntryId) {
        let end = self.next_entry().0;
        self.entries[directory.index()].end = end;
    }

    /// Whether there is no room for another entry.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() == MAX_ENTRIES
    }

    fn record(&self, id: EntryId) -> &EntryRecord {
        &self.entries[id.index()]
    }
}

impl<'t> Entry<'t> {
    /// The tree that it is in.
    pub fn tree(self) -> &'t SourceTree {
        self.tree
    }

    /// Its number.
    pub fn id(self) -> EntryId {
        self.id
    }

    /// Its name; empty for the root.
    pub fn name(self) -> &'t [u8] {
        let start = self.tree.record(self.id).name;
        let next = self.tree.entries.get(self.id.index() + 1);
        let end = next.map_or(self.tree.names.len(), |next| next.name);
        &self.tree.names[start..end]
    }

    /// The number of its inode.
    pub fn inode_id(self) -> InodeId {
        self.tree.record(self.id).inode
    }

    /// Its inode.
    pub fn inode(self) -> &'t Inode {
        self.tree.inode(self.inode_id())
    }

    /// Whether it is the first name of its inode; the others are hard links.
    pub fn is_first_name(self) -> bool {
        self.inode().first_name == self.id
    }

    /// The target of the symbolic link in its place, if it is what that leads to.
    pub fn followed(self) -> Option<&'t [u8]> {
        self.tree.followed.get(&self.id).map(|target| &**target)
    }

    /// Whether it is the file that was added to the tree, which is not where the others are.
    pub fn is_added(self) -> bool {
        matches!(&self.inode().kind, InodeKind::File(file) if file.is_added())
    }

    /// Whether it is a directory.
    pub fn is_directory(self) -> bool {
        matches!(self.inode().kind, InodeKind::Directory(_))
    }

    /// Its directory; the root itself for the root.
    pub fn parent(self) -> Self {
        self.tree.entry(self.tree.record(self.id).parent)
    }

    /// The entries in this directory, by the bytes of their names.
    pub fn children(self) -> impl Iterator<Item = Self> + Clone {
        let first = EntryId(self.id.0 + 1);
        let first = self.contains(first).then(|| self.tree.entry(first));
        iter::successors(first, |child| child.next_sibling())
    }

    /// The entry behind this one in their directory.
    pub fn next_sibling(self) -> Option<Self> {
        let next = EntryId(self.end());
        let is_there = self.id != EntryId::ROOT && self.parent().contains(next);
        is_there.then(|| self.tree.entry(next))
    }

    /// Whether this is the entry with that number, or a directory above it.
    pub fn contains(self, other: EntryId) -> bool {
        (self.id.0..self.end()).contains(&other.0)
    }

    /// Its path, for messages.
    pub fn path(self) -> PathBuf {
        match self.id {
            // Without a slash at its end, which would follow a symbolic link.
            EntryId::ROOT => self.tree.root.clone(),
            _ => self.tree.root.join(self.path_inside()),
        }
    }

    /// Its path below the root; empty for the root.
    pub fn path_inside(self) -> PathBuf {
        let mut names = Vec::new();
        let mut entry = self;
        while entry.id != EntryId::ROOT {
            names.push(OsStr::from_bytes(entry.name()));
            entry = entry.parent();
        }
        names.iter().rev().collect()
    }

    /// The number of names in its path; 0 for the root.
    pub(crate) fn depth(self) -> usize {
        let above = iter::successors(Some(self), |entry| Some(entry.parent()));
        above.take_while(|entry| entry.id != EntryId::ROOT).count()
    }

    fn end(self) -> u32 {
        self.tree.record(self.id).end
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.path_inside()).finish()
    }
}
