use std::{
    collections::HashMap,
    ffi::OsStr,
    hash::{BuildHasher, RandomState},
    mem,
    os::unix::ffi::OsStrExt,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use hashbrown::HashTable;
use rustix::io::Errno;
use verimount_sync::Mutex;
use verimount_sys::FileHandle;

use crate::{NodeId, name::Name, node::FileId};

/// log2 of the number of parts, each with its own lock: enough that a few dozen threads rarely
/// contend.
const SHARD_BITS: u32 = 5;

/// log2 of the number of files that one part can remember. All parts together can remember four
/// billion, more than fit into any machine's memory.
const SLOT_BITS: u32 = 27;

/// The most directories that are passed on the way to a file. While others move directories into one
/// another, it could otherwise seem endless.
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
    /// Whether all names of a file that has several are remembered, or else only the last one.
    keeps_all_names: AtomicBool,
}

/// One part of the table: the files whose identity hashes to it.
#[derive(Debug, Default)]
struct Shard {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Positions in `slots`, by the file's identity.
    by_file: HashTable<u32>,
    /// Other locations of files that have several names, by position in `slots`: those under which they
    /// were found before the last one. Some may be out of date.
    other_names: HashMap<u32, Vec<Location>>,
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
    traces: Traces,
    lookups: u64,
    /// How many moves have begun or ended: odd during one. The kernel lets only one at a time move a file.
    moves: u32,
}

/// All data by which a file can be found again.
#[derive(Debug, Clone)]
pub(crate) struct Traces {
    pub(crate) file: FileId,
    pub(crate) location: Location,
    pub(crate) handle: Option<Box<FileHandle>>,
}

impl NodeTable {
    /// From now on, remembers all names of a file that has several, or only the last one. A name takes about
    /// 80 bytes.
    pub(crate) fn keep_all_names(&self, all: bool) {
        self.keeps_all_names.store(all, Relaxed);
    }

    /// Counts a lookup of a file, and records its location. `has_other_names` if it is not its only one.
    pub(crate) fn remember(
        &self,
        file: FileId,
        location: Location,
        has_other_names: bool,
    ) -> Result<NodeId, Errno> {
        let hash = self.hash(file);
        let index = shard_of(hash);
        let mut shard = self.shards[index].lock();
        let slot = match shard.find(hash, file) {
            Some(slot) => slot,
            None => shard.insert(hash, file, &location, |file| self.hash(file))?,
        };
        let keeps_others = has_other_names && self.keeps_all_names();
        shard.set_location(slot, location, keeps_others);
        let Slot { turn, node } = &mut shard.slots[slot as usize];
        let node = node.as_mut().expect("what was found or inserted is there");
        node.lookups = node.lookups.saturating_add(1);
        Ok(node_id(*turn, slot, index))
    }

    /// Subtracts `count` from the lookups of a file. Returns whether none are left.
    pub(crate) fn forget(&self, id: NodeId, count: u64) -> bool {
        let (turn, slot, index) = parts(id);
        let mut shard = self.shards[index].lock();
        let Some(node) = shard.node(turn, slot) else {
            return false;
        };
        debug_assert!(node.lookups > 0, "a file is remembered for its lookups");
        node.lookups = node.lookups.saturating_sub(count);
        let (file, is_last) = (node.traces.file, node.lookups == 0);
        if is_last {
            shard.remove(self.hash(file), slot);
        }
        is_last
    }

    /// Records that a name of a file was changed, if the file is remembered.
    pub(crate) fn moved(&self, file: FileId, from: &Location, to: Location) {
        let hash = self.hash(file);
        let mut shard = self.shards[shard_of(hash)].lock();
        if let Some(slot) = shard.find(hash, file) {
            let keeps_others = self.keeps_all_names();
            shard.set_location(slot, to, keeps_others);
            shard.remove_other_names(slot, |name| name == from);
        }
    }

    /// Whether all names of a file that has several are remembered.
    pub(crate) fn keeps_all_names(&self) -> bool {
        self.keeps_all_names.load(Relaxed)
    }

    /// Counts the beginning or end of a move, if the file is remembered.
    pub(crate) fn count_move(&self, file: FileId) {
        if let Some(node) = self.find(file) {
            self.with(node, |node| node.moves = node.moves.wrapping_add(1));
        }
    }

    /// The number of beginnings and ends of moves of a file.
    pub(crate) fn moves(&self, id: NodeId) -> Option<u32> {
        self.with(id, |node| node.moves)
    }

    /// The node of a file, if it is remembered.
    pub(crate) fn find(&self, file: FileId) -> Option<NodeId> {
        let hash = self.hash(file);
        let index = shard_of(hash);
        let shard = self.shards[index].lock();
        let slot = shard.find(hash, file)?;
        Some(node_id(shard.slots[slot as usize].turn, slot, index))
    }

    /// Records a file's handle.
    pub(crate) fn set_handle(&self, id: NodeId, handle: FileHandle) {
        self.with(id, |node| node.traces.handle = Some(Box::new(handle)));
    }

    /// Whether a file is remembered.
    pub(crate) fn contains(&self, id: NodeId) -> bool {
        self.with(id, |_| ()).is_some()
    }

    /// Whether a file's handle is known.
    pub(crate) fn has_handle(&self, id: NodeId) -> bool {
        self.with(id, |node| node.traces.handle.is_some()) == Some(true)
    }

    /// All data by which a file can be found again; `None` if it is not remembered.
    pub(crate) fn traces(&self, id: NodeId) -> Option<Traces> {
        self.with(id, |node| node.traces.clone())
    }

    /// The locations under which a file was found, the last one first; `None` if it is not remembered.
    pub(crate) fn locations(&self, id: NodeId) -> Option<(FileId, Vec<Location>)> {
        let (turn, slot, index) = parts(id);
        let mut shard = self.shards[index].lock();
        let node = shard.node(turn, slot)?;
        let (file, last) = (node.traces.file, node.traces.location.clone());
        let others = shard.other_names.get(&slot).into_iter().flatten().cloned();
        Some((file, [last].into_iter().chain(others).collect()))
    }

    /// Forgets those `outdated` of a file's other locations that [`Self::locations`] returned as `found`,
    /// unless another one was recorded meanwhile: it could be one of them.
    pub(crate) fn forget_locations(&self, id: NodeId, found: &[Location], outdated: &[Location]) {
        let (turn, slot, index) = parts(id);
        let mut shard = self.shards[index].lock();
        let Some(node) = shard.node(turn, slot) else {
            return;
        };
        let is_last = Some(&node.traces.location) == found.first();
        let others = shard.other_names.get(&slot).map(Vec::as_slice);
        if is_last && others == found.get(1..) {
            shard.remove_other_names(slot, |name| outdated.contains(name));
        }
    }

    /// Number of remembered files.
    pub(crate) fn len(&self) -> usize {
        let indices = 0..self.shards.len();
        indices
            .map(|index| self.shards[index].lock().by_file.len())
            .sum()
    }

    fn with<T>(&self, id: NodeId, see: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let (turn, slot, index) = parts(id);
        self.shards[index].lock().node(turn, slot).map(see)
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
        debug_assert!(self.find(hash, file).is_none(), "a file has two nodes");
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
        debug_assert!(place.node.is_none(), "slot {slot} is not free");
        place.turn = place.turn.wrapping_add(1).max(1);
        place.node = Some(Node {
            traces: Traces {
                file,
                location: location.clone(),
                handle: None,
            },
            lookups: 0,
            moves: 0,
        });
        let slots = &self.slots;
        self.by_file.insert_unique(hash, slot, |slot| {
            let node = slots[*slot as usize].node.as_ref();
            hash_of(node.expect("only what is there is indexed").traces.file)
        });
        self.check(slot);
        Ok(slot)
    }

    /// Records the last known location of the file in a slot, and the one before as another name.
    fn set_location(&mut self, slot: u32, location: Location, keeps_others: bool) {
        let Some(node) = &mut self.slots[slot as usize].node else {
            return;
        };
        let last = &mut node.traces.location;
        if *last == location {
            return;
        }
        let before = mem::replace(last, location);
        if keeps_others {
            let location = &*last;
            let others = self.other_names.entry(slot).or_default();
            others.retain(|name| name != location);
            others.push(before);
        } else {
            self.other_names.remove(&slot);
        }
        self.check(slot);
    }

    fn remove_other_names(&mut self, slot: u32, is_gone: impl Fn(&Location) -> bool) {
        if let Some(others) = self.other_names.get_mut(&slot) {
            others.retain(|name| !is_gone(name));
            if others.is_empty() {
                self.other_names.remove(&slot);
            }
        }
        self.check(slot);
    }

    fn remove(&mut self, hash: u64, slot: u32) {
        self.other_names.remove(&slot);
        if let Ok(entry) = self.by_file.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        self.slots[slot as usize].node = None;
        self.free.push(slot);
        self.check(slot);
    }

    /// After a change of a slot.
    fn check(&self, slot: u32) {
        let node = self.slots[slot as usize].node.as_ref();
        let others = self.other_names.get(&slot);
        debug_assert_eq!(self.by_file.len() + self.free.len(), self.slots.len());
        debug_assert!(self.other_names.len() <= self.by_file.len());
        debug_assert!(
            others.is_none_or(|others| !others.is_empty() && node.is_some()),
            "names are kept of nothing"
        );
        debug_assert!(
            others.is_none_or(
                |others| node.is_some_and(|node| !others.contains(&node.traces.location))
            ),
            "the last name is kept twice"
        );
    }

    fn file_in(&self, slot: u32) -> Option<FileId> {
        let node = self.slots[slot as usize].node.as_ref();
        node.map(|node| node.traces.file)
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

    fn remember(table: &NodeTable, file: FileId, name: &str) -> NodeId {
        let location = at(NodeId::ROOT, name);
        table.remember(file, location, true).unwrap()
    }

    fn names(table: &NodeTable, node: NodeId) -> Vec<Location> {
        table.locations(node).unwrap().1
    }

    #[test]
    fn names_of_one_file_share_its_node() {
        let table = NodeTable::default();
        let first = remember(&table, file(7, 1), "a");
        assert_eq!(first, remember(&table, file(7, 1), "b"));
        assert!(!table.forget(first, 1));
        assert!(table.forget(first, 1));
        assert_eq!(table.len(), 0);
        assert!(table.traces(first).is_none());
        assert!(!table.forget(first, 1));
    }

    #[test]
    fn other_names_are_kept_if_wanted() {
        let table = NodeTable::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| at(NodeId::ROOT, name));
        let node = remember(&table, file(7, 1), "a");
        remember(&table, file(7, 1), "b");
        assert_eq!(names(&table, node), std::slice::from_ref(&b));
        table.keep_all_names(true);
        for name in ["a", "b", "c", "b"] {
            remember(&table, file(7, 1), name);
        }
        assert_eq!(names(&table, node), [b.clone(), a.clone(), c.clone()]);
        table.moved(file(7, 1), &a, at(NodeId::ROOT, "d"));
        assert_eq!(names(&table, node), [at(NodeId::ROOT, "d"), c, b.clone()]);
        // Its only name.
        table.remember(file(7, 1), b.clone(), false).unwrap();
        assert_eq!(names(&table, node), [b]);
    }

    #[test]
    fn a_name_that_was_found_again_is_not_forgotten() {
        let table = NodeTable::default();
        table.keep_all_names(true);
        let [a, b] = ["a", "b"].map(|name| at(NodeId::ROOT, name));
        let node = remember(&table, file(7, 1), "a");
        remember(&table, file(7, 1), "b");
        let before = names(&table, node);
        remember(&table, file(7, 1), "a");
        table.forget_locations(node, &before, std::slice::from_ref(&a));
        assert_eq!(names(&table, node), [a.clone(), b.clone()]);
        table.forget_locations(node, &[a.clone(), b.clone()], &[b]);
        assert_eq!(names(&table, node), [a]);
        assert!(
            table
                .shards
                .iter()
                .all(|shard| shard.lock().other_names.is_empty())
        );
    }

    #[test]
    fn an_inode_number_used_again_is_another_file() {
        let table = NodeTable::default();
        let old = remember(&table, file(7, 1), "a");
        let new = remember(&table, file(7, 2), "a");
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
            let id = remember(&table, file(round % 3, 0), "a");
            assert!(ids.insert(id));
            assert!(table.forget(id, u64::MAX));
        }
    }

    #[test]
    fn a_file_takes_about_120_bytes() {
        // The name takes at least 32 bytes of its own, and the index about 8.
        assert!(size_of::<Slot>() <= 80, "{}", size_of::<Slot>());
    }
}
