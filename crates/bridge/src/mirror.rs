use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{fs::OFlags, io::Errno};
use verimount_sys::FileHandle;

use crate::{
    Attr, NodeId, Rights,
    file::OpenFile,
    kept::KeptFiles,
    name::Name,
    node::FileId,
    opened::OpenedFiles,
    source::Source,
    table::{Location, NodeTable, Traces},
};

mod attributes;
mod content;
mod list;
mod make;
mod names;
mod xattr;

pub use attributes::{Changes, NewTime};
pub use make::NewFile;

/// The most steps from a file up to a directory that is at hand: Linux has no longer paths.
const MAX_DEPTH: usize = 4096;

/// How a directory is mirrored.
#[derive(Debug, Clone, Copy, Default)]
pub struct MirrorOptions {
    /// Whether nothing may be changed: whatever would is refused with `EROFS`.
    pub read_only: bool,
}

/// What a name stands for. It counts as one lookup, see [`Mirror::forget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What the file is known by.
    pub node: NodeId,
    /// What it is.
    pub attr: Attr,
}

/// A directory and all that is below it, which is never left.
///
/// Errors are the numbers that the source's file system gives. Of our own are:
/// - `ESTALE`: the node is not known, or cannot be found again, as others moved it. The kernel then
///   looks the path up anew.
/// - `EXDEV`: something is mounted there.
/// - `EROFS`: the mirror is read-only.
/// - `EINVAL`: the name is none.
#[derive(Debug)]
pub struct Mirror {
    source: Source,
    nodes: NodeTable,
    /// Files that were used lately, each held as a path only, by which it is at hand whatever it is
    /// called.
    held: Arc<KeptFiles<Arc<OwnedFd>>>,
    opened: Arc<OpenedFiles>,
    rights: Rights,
    read_only: bool,
}

impl Mirror {
    /// Mirrors the directory at `path`.
    ///
    /// # Errors
    /// What `open` says; `EOPNOTSUPP` before Linux 5.8.
    pub fn open(path: &Path, options: MirrorOptions) -> Result<Self, Errno> {
        let source = Source::open(path, options.read_only)?;
        Ok(Self {
            rights: Rights::of_this_process(source.file_system())?,
            source,
            nodes: NodeTable::default(),
            held: Arc::new(KeptFiles::new()),
            opened: Arc::default(),
            read_only: options.read_only,
        })
    }

    /// The source directory itself.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.source.root().as_fd()
    }

    /// In whose name files are made.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Whether what is mounted below the source is met there, and refused with `EXDEV`: so it is
    /// unless this process is root's. It must not be the mirror's own mount, which cannot answer
    /// what is asked for its sake.
    pub fn meets_mounts(&self) -> bool {
        self.source.meets_mounts()
    }

    /// Whether the source's file system may itself be a layer above others.
    pub fn is_stacked(&self) -> bool {
        self.source.file_system().is_stacked()
    }

    /// How many files are remembered.
    pub fn remembered(&self) -> usize {
        self.nodes.len()
    }

    /// How many files are held open because they were used lately.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// A node's path below the source, by the names that were last used for it.
    ///
    /// # Errors
    /// `ESTALE` if one of the directories is not known any more.
    pub fn path(&self, node: NodeId) -> Result<PathBuf, Errno> {
        self.nodes.path(node).ok_or(Errno::STALE)
    }

    /// Whether a node is remembered.
    pub(crate) fn remembers(&self, node: NodeId) -> bool {
        self.nodes.contains(node)
    }

    /// Takes back `count` of the lookups that a node counts. At none it is forgotten, and this is
    /// true.
    pub fn forget(&self, node: NodeId, count: u64) -> bool {
        let is_gone = self.nodes.forget(node, count);
        if is_gone {
            self.held.remove(node);
        }
        is_gone
    }

    /// The one gate that all that changes anything must pass: with no more rights than it needs.
    fn for_change(&self) -> Result<(), Errno> {
        match self.read_only {
            false => self.rights.prepare_thread(),
            true => Err(Errno::ROFS),
        }
    }

    /// A descriptor of a node, good for whatever a path is good for.
    fn descriptor(&self, node: NodeId) -> Result<Arc<OwnedFd>, Errno> {
        // What leads from a directory that is at hand down to the node, the last step first.
        let mut steps: Vec<(NodeId, Traces)> = Vec::new();
        let mut at = node;
        let mut descriptor = loop {
            if let Some(at_hand) = self.at_hand(at) {
                break at_hand;
            }
            let traces = self.nodes.traces(at).ok_or(Errno::STALE)?;
            if let Some(handle) = &traces.handle
                && let Ok((found, file)) = self.source.hold_by_handle(handle)
                && file == traces.file
            {
                break self.keep(at, found);
            }
            if steps.len() == MAX_DEPTH {
                return Err(Errno::STALE);
            }
            let parent = traces.location.parent;
            steps.push((at, traces));
            at = parent;
        };
        while let Some((at, traces)) = steps.pop() {
            let name = traces.location.name().or(Err(Errno::STALE))?;
            let (found, file) = self.source.hold(descriptor.as_fd(), name).map_err(stale)?;
            if file != traces.file {
                return Err(Errno::STALE);
            }
            descriptor = self.keep(at, found);
        }
        Ok(descriptor)
    }

    /// A descriptor of a node, if there is one already.
    fn at_hand(&self, node: NodeId) -> Option<Arc<OwnedFd>> {
        if node == NodeId::ROOT {
            return Some(Arc::clone(self.source.root()));
        }
        self.held.get(node).or_else(|| self.opened.get(node))
    }

    /// Keeps a descriptor at hand. Those that make room for it leave their handles, by which they
    /// are found again even where others move them.
    fn keep(&self, node: NodeId, found: OwnedFd) -> Arc<OwnedFd> {
        let found = Arc::new(found);
        for (node, file) in self.held.insert(node, Arc::clone(&found)) {
            if self.source.has_handles()
                && !self.nodes.has_handle(node)
                && let Ok(handle) = FileHandle::of(&*file)
            {
                self.nodes.set_handle(node, handle);
            }
        }
        found
    }

    /// Counts a lookup of the file that is at `name` in `parent`.
    fn remember(
        &self,
        (file, attr): (FileId, Attr),
        parent: NodeId,
        name: Name<'_>,
    ) -> Result<Entry, Errno> {
        let node = self.nodes.remember(file, Location::new(parent, name))?;
        Ok(Entry { node, attr })
    }

    /// Notes that a file is open by a descriptor that belongs to it alone.
    fn opened(&self, node: NodeId, flags: OFlags, file: OwnedFd) -> OpenFile {
        let file = Arc::new(file);
        let opened = self.opened.enter(node, &file);
        OpenFile::open(node, flags, file, opened)
    }
}

/// What it means for a node that its name is not where it was.
fn stale(errno: Errno) -> Errno {
    match errno {
        Errno::NOENT | Errno::NOTDIR => Errno::STALE,
        errno => errno,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As on a file system that gives a later file the inode number of an earlier one, and whose
    /// handles hold nothing else.
    #[test]
    fn a_handle_that_leads_to_another_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "wanted").unwrap();
        fs::write(folder.path().join("other"), "x").unwrap();
        let mirror = Mirror::open(folder.path(), MirrorOptions::default()).unwrap();
        if !mirror.source.has_handles() {
            return eprintln!("skipped: no files can be found by handles here");
        }
        let node = mirror.lookup(NodeId::ROOT, "file".as_ref()).unwrap().node;
        let other = fs::File::open(folder.path().join("other")).unwrap();
        let handle = FileHandle::of(other).unwrap();
        mirror.nodes.set_handle(node, handle);
        let found = mirror.descriptor(node).unwrap();
        assert_eq!(mirror.source.examine_open(found).unwrap().1.size, 6);
    }
}
