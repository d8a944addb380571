use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use quick_cache::sync::Cache;
use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use verimount_sys::FileHandle;

use crate::{
    Attr, NodeId, Restrictions, Rights,
    credentials::Callers,
    file::{Content, OpenFile},
    kept::KeptFiles,
    name::Name,
    node::FileId,
    opened::OpenedFiles,
    source::Source,
    table::{Location, MAX_DEPTH, NodeTable, Traces},
};

mod act;
mod attributes;
mod content;
mod list;
mod make;
mod names;
mod paths;
mod xattr;

/// Of how many directories is remembered where they were.
const MAX_PLACES: usize = 1024;

/// How a directory is mirrored.
#[derive(Debug, Clone, Copy, Default)]
pub struct MirrorOptions {
    /// Whether all changes are refused with `EROFS`.
    pub read_only: bool,
}

/// The file at a name. Counts as one lookup, see [`Mirror::forget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The file's node.
    pub node: NodeId,
    /// The file's attributes.
    pub attr: Attr,
}

/// A directory and everything below it; nothing outside is reachable.
///
/// Errors are the error numbers of the source's file system, except for these:
/// - `ESTALE`: the node is unknown, or was moved and cannot be found again. The kernel then looks
///   the path up again.
/// - `EXDEV`: something is mounted there.
/// - `EROFS`: the mirror is read-only.
/// - `EINVAL`: invalid name.
#[derive(Debug)]
pub struct Mirror {
    source: Source,
    nodes: NodeTable,
    /// Recently used files, each held with `O_PATH`, so that they stay accessible when moved.
    held: Arc<KeptFiles<Arc<OwnedFd>>>,
    /// Where directories were last.
    places: Cache<NodeId, Arc<Path>>,
    opened: Arc<OpenedFiles>,
    rights: Rights,
    callers: Callers,
    read_only: bool,
}

impl Mirror {
    /// Mirrors the directory at `path`.
    ///
    /// # Errors
    /// As `open`; `EOPNOTSUPP` before Linux 5.8.
    pub fn open(path: &Path, options: MirrorOptions) -> Result<Self, Errno> {
        let source = Source::open(path, options.read_only)?;
        Ok(Self {
            rights: Rights::of_this_process(source.file_system)?,
            source,
            nodes: NodeTable::default(),
            held: Arc::new(KeptFiles::new()),
            places: Cache::new(MAX_PLACES),
            opened: Arc::default(),
            callers: Callers::default(),
            read_only: options.read_only,
        })
    }

    /// The source directory itself.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.source.root.as_fd()
    }

    /// With whose rights operations run.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Whether mounts below the source are visible and refused with `EXDEV`, as for any user but
    /// root. The mirror's own mount must not be one of them: it cannot answer requests that it
    /// waits for itself.
    pub fn meets_mounts(&self) -> bool {
        self.source.meets_mounts()
    }

    /// What the source's mount does not allow. The mount of the mirror must not allow it either.
    pub fn restrictions(&self) -> Restrictions {
        self.source.restrictions
    }

    /// Whether the source's file system may itself be stacked on others.
    pub fn is_stacked(&self) -> bool {
        self.source.file_system.is_stacked()
    }

    /// Number of remembered files.
    pub fn remembered(&self) -> usize {
        self.nodes.len()
    }

    /// Number of recently used files that are held open.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// From now on, remembers all names by which files were found, or only the last ones. A
    /// [path](Self::file_paths) by another name is then unknown.
    pub(crate) fn keep_all_names(&self, all: bool) {
        self.nodes.keep_all_names(all);
    }

    /// Whether a node is remembered.
    pub(crate) fn remembers(&self, node: NodeId) -> bool {
        self.nodes.contains(node)
    }

    /// Subtracts `count` from a node's lookups. Returns whether none are left and the node was
    /// forgotten.
    pub fn forget(&self, node: NodeId, count: u64) -> bool {
        let is_gone = self.nodes.forget(node, count);
        if is_gone {
            self.held.remove(node);
        }
        is_gone
    }

    /// Called by every operation that changes anything: refuses it if the mirror is read-only, and
    /// restricts the thread's rights.
    fn for_change(&self) -> Result<(), Errno> {
        if self.read_only {
            Err(Errno::ROFS)
        } else {
            self.rights.prepare_thread()
        }
    }

    /// An `O_PATH` descriptor of a node.
    fn descriptor(&self, node: NodeId) -> Result<Arc<OwnedFd>, Errno> {
        // The steps from a directory with a descriptor down to the node, last step first.
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

    /// An existing descriptor of a node.
    fn at_hand(&self, node: NodeId) -> Option<Arc<OwnedFd>> {
        if node == NodeId::ROOT {
            return Some(Arc::clone(&self.source.root));
        }
        self.held.get(node).or_else(|| self.opened.get(node))
    }

    /// Caches a descriptor. Evicted ones leave their file handles, by which the files are found
    /// again even after a move.
    fn keep(&self, node: NodeId, found: OwnedFd) -> Arc<OwnedFd> {
        let found = Arc::new(found);
        for (node, file) in self.held.insert(node, Arc::clone(&found)) {
            if self.source.has_handles
                && !self.nodes.has_handle(node)
                && let Ok(handle) = FileHandle::of(&*file)
            {
                self.nodes.set_handle(node, handle);
            }
        }
        found
    }

    /// Counts a lookup of the file at `name` in `parent`.
    fn remember(
        &self,
        (file, attr): (FileId, Attr),
        parent: NodeId,
        name: Name<'_>,
    ) -> Result<Entry, Errno> {
        let location = Location::new(parent, name);
        let has_other_names = attr.nlink > 1 && attr.file_type() != FileType::Directory;
        let node = self.nodes.remember(file, location, has_other_names)?;
        Ok(Entry { node, attr })
    }

    /// Registers an open file that owns its descriptor.
    fn opened(&self, node: NodeId, flags: OFlags, file: OwnedFd) -> OpenFile {
        let file = Arc::new(file);
        OpenFile {
            node,
            flags,
            _opened: self.opened.enter(node, &file),
            content: Content::Open(file),
        }
    }
}

/// The error for a node whose name no longer leads to it.
fn stale(errno: Errno) -> Errno {
    match errno {
        Errno::NOENT | Errno::NOTDIR => Errno::STALE,
        errno => errno,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use verimount_testkit::skip;

    use super::*;

    /// As on a file system that gives a later file the inode number of an earlier one, and whose
    /// handles hold nothing else.
    #[test]
    fn a_handle_that_leads_to_another_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "wanted").unwrap();
        fs::write(folder.path().join("other"), "x").unwrap();
        let mirror = Mirror::open(folder.path(), MirrorOptions::default()).unwrap();
        if !mirror.source.has_handles {
            return skip("no files can be found by handles here");
        }
        let node = mirror.lookup(NodeId::ROOT, "file".as_ref()).unwrap().node;
        let other = fs::File::open(folder.path().join("other")).unwrap();
        let handle = FileHandle::of(other).unwrap();
        mirror.nodes.set_handle(node, handle);
        let found = mirror.descriptor(node).unwrap();
        assert_eq!(mirror.source.examine_open(found).unwrap().1.size, 6);
    }
}
