use std::{
    ffi::{OsStr, OsString},
    hash::{BuildHasher, RandomState},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hashbrown::HashTable;
use rustix::io::Errno;
use verimount_sys::FileHandle;

use crate::{
    name::Name,
    node::{FileId, NodeId},
};

/// log2 of the number of parts, each with its own lock: enough that a few dozen threads rarely
/// contend.
const SHARD_BITS: u32 = 5;

/// log2 of the number of files that one part can remember. All parts together can remember four
/// billion, more than fit into any machine's memory.
const SLOT_BITS: u32 = 27;

/// The longest path that is constructed, in names: Linux has no longer paths, even in bytes. While
/// others move directories into one another, a path could otherwise seem endless.
pub(crate) const MAX_DEPTH: usize = 4096;

/// The last known location of a file: a name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) parent: NodeId,
    /// Empty for a file that was created without a name.
    name: Box<[u8]>,
}

impl Location {
    pub(crate) fn new(parent: NodeId, name: Name<'_>) -> Self {
        let name = name.as_bytes().into();
        Self { parent, name }
    }

    /// The location of a file without a name; `parent` only identifies the file system.
    pub(crate) fn unnamed(parent: NodeId) -> Self {
        let name = Box::default();
        Self { parent, name }
    }

    /// The name, unless the file was created without one.
    pub(crate) fn name(&self) -> Result<Name<'_>, Errno> {
        Name::new(OsStr::from_bytes(&self.name))
    }
}

/// The files that the kernel remembers, each with its number of lookups; all but the root, which is
/// always known.
///
/// Takes about 120 bytes per file. A lock is held only while one file is examined.
#[derive(Debug, Default)]
pub(crate) struct NodeTable {
    shards: [Mutex<Shard>; 1 << SHARD_BITS],
    hasher: RandomState,
}

/// One part of the table: the files whose identity hashes to it.
#[derive(Debug, Default)]
struct Shard {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Positions in `slots`, by the file's identity.
    by_file: HashTable<u32>,
}

/// A slot for a file.
#[derive(Debug, Default)]
struct Slot {
    /// Generation of the slot: how many files have used it. It is part of the id, so that no id is
    /// reused, and none is the root's.
    turn: u32,
    node: Option<Node>,
}

#[derive(Debug)]
struct Node {
    file: FileId,
    lookups: u64,
    location: Location,
    handle: Option<Box<FileHandle>>,
}

/// All data by which a file can be found again.
#[derive(Debug)]
pub(crate) struct Traces {
    pub(crate) file: FileId,
    pub(crate) location: Location,
    pub(crate) handle: Option<Box<FileHandle>>,
}

impl NodeTable {
    /// Counts a lookup of a file, and records its location.
    pub(crate) fn remember(&self, file: FileId, location: Location) -> Result<NodeId, Errno> {
        let hash = self.hash(file);
        let index = shard_of(hash);
        let mut shard = self.shard(index);
        let slot = match shard.find(hash, file) {
            Some(slot) => slot,
            None => shard.insert(hash, file, &location, |file| self.hash(file))?,
        };
        let Slot { turn, node } = &mut shard.slots[slot as usize];
        let node = node.as_mut().expect("what was found or inserted is there");
        node.lookups = node.lookups.saturating_add(1);
        if node.location != location {
            node.location = location;
        }
        Ok(node_id(*turn, slot, index))
    }

    /// Subtracts `count` from the lookups of a file. Returns whether none are left.
    pub(crate) fn forget(&self, id: NodeId, count: u64) -> bool {
        let (turn, slot, index) = parts(id);
        let mut shard = self.shard(index);
        let Some(node) = shard.node(turn, slot) else {
            return false;
        };
        node.lookups = node.lookups.saturating_sub(count);
        let (file, is_last) = (node.file, node.lookups == 0);
        if is_last {
            shard.remove(self.hash(file), slot);
        }
        is_last
    }

    /// Records the new location of a file, if it is remembered.
    pub(crate) fn moved(&self, file: FileId, location: Location) {
        let hash = self.hash(file);
        let mut shard = self.shard(shard_of(hash));
        if let Some(slot) = shard.find(hash, file)
            && let Some(node) = &mut shard.slots[slot as usize].node
        {
            node.location = location;
        }
    }

    /// The node of a file, if it is remembered.
    pub(crate) fn find(&self, file: FileId) -> Option<NodeId> {
        let hash = self.hash(file);
        let index = shard_of(hash);
        let shard = self.shard(index);
        let slot = shard.find(hash, file)?;
        Some(node_id(shard.slots[slot as usize].turn, slot, index))
    }

    /// Records a file's handle.
    pub(crate) fn set_handle(&self, id: NodeId, handle: FileHandle) {
        self.with(id, |node| node.handle = Some(Box::new(handle)));
    }

    /// Whether a file is remembered.
    pub(crate) fn contains(&self, id: NodeId) -> bool {
        self.with(id, |_| ()).is_some()
    }

    /// Whether a file's handle is known.
    pub(crate) fn has_handle(&self, id: NodeId) -> bool {
        self.with(id, |node| node.handle.is_some()) == Some(true)
    }

    /// All data by which a file can be found again; `None` if it is not remembered.
    pub(crate) fn traces(&self, id: NodeId) -> Option<Traces> {
        self.with(id, |node| Traces {
            file: node.file,
            location: node.location.clone(),
            handle: node.handle.clone(),
        })
    }

    /// A file's path below the root, by the most recently used names; empty for the root.
    pub(crate) fn path(&self, mut id: NodeId) -> Option<PathBuf> {
        let mut names = Vec::new();
        while id != NodeId::ROOT {
            let location = self.with(id, |node| node.location.clone())?;
            if names.len() == MAX_DEPTH {
                return None;
            }
            names.push(location.name);
            id = location.parent;
        }
        let names = names.into_iter().rev();
        Some(names.map(|name| OsString::from_vec(name.into())).collect())
    }

    /// Number of remembered files.
    pub(crate) fn len(&self) -> usize {
        let indices = 0..self.shards.len();
        indices.map(|index| self.shard(index).by_file.len()).sum()
    }

    fn with<T>(&self, id: NodeId, see: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let (turn, slot, index) = parts(id);
        self.shard(index).node(turn, slot).map(see)
    }

    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        // No panic can separate two changes that belong together.
        let shard = self.shards[index].lock();
        shard.unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, file: FileId) -> u64 {
        // Without the creation time: a later file with the same inode number replaces it.
        self.hasher.hash_one((file.device, file.inode))
    }
}

impl Shard {
    fn find(&self, hash: u64, file: FileId) -> Option<u32> {
        let is_it = |slot: &u32| self.file_in(*slot) == Some(file);
        self.by_file.find(hash, is_it).copied()
    }

    fn insert(
        &mut self,
        hash: u64,
        file: FileId,
        location: &Location,
        hash_of: impl Fn(FileId) -> u64,
    ) -> Result<u32, Errno> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).ok();
                let slot = slot.filter(|slot| slot >> SLOT_BITS == 0);
                let slot = slot.ok_or(Errno::NOMEM)?;
                self.slots.push(Slot::default());
                slot
            }
        };
        let place = &mut self.slots[slot as usize];
        place.turn = place.turn.wrapping_add(1).max(1);
        place.node = Some(Node {
            file,
            lookups: 0,
            location: location.clone(),
            handle: None,
        });
        let slots = &self.slots;
        self.by_file.insert_unique(hash, slot, |slot| {
            let node = slots[*slot as usize].node.as_ref();
            hash_of(node.expect("only what is there is indexed").file)
        });
        Ok(slot)
    }

    fn remove(&mut self, hash: u64, slot: u32) {
        if let Ok(entry) = self.by_file.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        self.slots[slot as usize].node = None;
        self.free.push(slot);
    }

    fn file_in(&self, slot: u32) -> Option<FileId> {
        let node = self.slots[slot as usize].node.as_ref();
        node.map(|node| node.file)
    }

    /// The file in a slot, if the slot still has this generation.
    fn node(&mut self, turn: u32, slot: u32) -> Option<&mut Node> {
        let slot = self.slots.get_mut(slot as usize)?;
        slot.node.as_mut().filter(|_| slot.turn == turn)
    }
}

/// The part of the table for a hash. The index within the part uses the lowest and the highest bits
/// of the hash, so this uses others.
fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % (1 << SHARD_BITS)
}

fn node_id(turn: u32, slot: u32, shard: usize) -> NodeId {
    NodeId((u64::from(turn) << 32) | (u64::from(slot) << SHARD_BITS) | shard as u64)
}

/// The generation, slot and part of the table from which [`node_id`] made an id.
fn parts(id: NodeId) -> (u32, u32, usize) {
    let place = id.0 as u32;
    let shard = place % (1 << SHARD_BITS);
    ((id.0 >> 32) as u32, place >> SHARD_BITS, shard as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64, born: i64) -> FileId {
        FileId {
            device: 1,
            inode,
            born,
        }
    }

    fn at(parent: NodeId, name: &str) -> Location {
        Location::new(parent, Name::new(name.as_ref()).unwrap())
    }

    #[test]
    fn names_of_one_file_share_its_node() {
        let table = NodeTable::default();
        let first = table.remember(file(7, 1), at(NodeId::ROOT, "a")).unwrap();
        let second = table.remember(file(7, 1), at(NodeId::ROOT, "b")).unwrap();
        assert_eq!(first, second);
        assert_eq!(table.path(first), Some("b".into()));
        assert!(!table.forget(first, 1));
        assert!(table.forget(first, 1));
        assert_eq!(table.len(), 0);
        assert!(table.traces(first).is_none());
        assert!(!table.forget(first, 1));
    }

    #[test]
    fn an_inode_number_used_again_is_another_file() {
        let table = NodeTable::default();
        let old = table.remember(file(7, 1), at(NodeId::ROOT, "a")).unwrap();
        let new = table.remember(file(7, 2), at(NodeId::ROOT, "a")).unwrap();
        assert_ne!(old, new);
        assert!(table.forget(old, 1));
        assert_eq!(table.traces(new).unwrap().file, file(7, 2));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn no_id_is_used_twice() {
        let table = NodeTable::default();
        let mut ids = std::collections::HashSet::from([NodeId::ROOT]);
        for round in 0..1000 {
            let id = table.remember(file(round % 3, 0), at(NodeId::ROOT, "a"));
            assert!(ids.insert(id.unwrap()));
            assert!(table.forget(id.unwrap(), u64::MAX));
        }
    }

    #[test]
    fn paths_follow_what_is_moved() {
        let table = NodeTable::default();
        let folder = table.remember(file(1, 0), at(NodeId::ROOT, "folder"));
        let inner = table.remember(file(2, 0), at(folder.unwrap(), "inner"));
        table.moved(file(1, 0), at(NodeId::ROOT, "renamed"));
        assert_eq!(table.path(inner.unwrap()), Some("renamed/inner".into()));
        assert_eq!(table.path(NodeId::ROOT), Some("".into()));
        // Others moved one into the other behind our back, and we heard of both moves.
        table.moved(file(1, 0), at(inner.unwrap(), "folder"));
        assert_eq!(table.path(inner.unwrap()), None);
    }

    #[test]
    fn a_file_takes_about_120_bytes() {
        // The name takes at least 32 bytes of its own, and the index about 8.
        assert!(size_of::<Slot>() <= 80, "{}", size_of::<Slot>());
    }
}
