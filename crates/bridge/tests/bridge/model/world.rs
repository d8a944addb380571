//! What the users know, and what must be denied to them therefore.
//!
//! No operation of a user undoes a denial, except by removing one of several names of a file. So what the
//! names of a file deny before an operation is still denied at its end, as far as the file has kept these
//! names.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Mutex, RwLock, RwLockReadGuard},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat},
    io::Errno,
};
use verimount_bridge::{Entry, NodeId};

use super::{
    case::{Case, Denials},
    locks::Locks,
    rest::Before,
    walk::{files, join},
};
use crate::{records::Records, support::Bench};

pub(super) struct World<'a> {
    pub(super) bench: &'a Bench,
    pub(super) records: &'a Records,
    pub(super) case: &'a Case,
    pub(super) source: PathBuf,
    /// Whether what must be denied is known at every moment: nobody changes the source during an operation.
    pub(super) is_exact: bool,
    pub(super) locks: Locks,
    operations: RwLock<()>,
    pub(super) state: Mutex<State>,
}

/// What is known, by inode number.
#[derive(Default)]
pub(super) struct State {
    directories: HashMap<u64, Directory>,
    pub(super) files: HashMap<u64, Known>,
    /// The files at the last change of the source.
    pub(super) before: BTreeMap<u64, Before>,
    links: u64,
}

/// A directory that was looked up, and stays remembered.
struct Directory {
    held: OwnedFd,
    node: NodeId,
    lookups: u64,
}

/// A file that was looked up and not yet forgotten.
pub(super) struct Known {
    pub(super) node: NodeId,
    lookups: u64,
    /// So that no other file gets its inode number.
    held: OwnedFd,
    /// The names by which it was looked up, and which it has had since then. A name that is moved keeps its
    /// number.
    links: BTreeMap<u64, Place>,
    /// What is denied when it has no such name.
    floor: Denials,
}

/// A node that was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) node: NodeId,
    pub(super) inode: u64,
    pub(super) is_file: bool,
}

/// A name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) parent: Found,
    pub(super) name: &'static str,
}

/// What must be denied at the beginning of an operation.
#[derive(Debug)]
pub(super) struct Expected {
    links: Vec<(u64, Denials)>,
    floor: Denials,
}

impl<'a> World<'a> {
    pub(super) fn new(
        (bench, records): &'a (Bench, Records),
        case: &'a Case,
        is_exact: bool,
    ) -> Self {
        let world = Self {
            bench,
            records,
            case,
            source: bench.folder.path().canonicalize().unwrap(),
            is_exact,
            locks: Locks::default(),
            operations: RwLock::default(),
            state: Mutex::default(),
        };
        let held = fs::File::open(&world.source).unwrap().into();
        let root = Directory {
            held,
            node: NodeId::ROOT,
            lookups: 0,
        };
        let inode = world.root().inode;
        let mut state = world.state.lock().unwrap();
        state.directories.insert(inode, root);
        world.settle(&mut state);
        drop(state);
        world
    }

    pub(super) fn root(&self) -> Found {
        Found {
            node: NodeId::ROOT,
            inode: rustix::fs::stat(&self.source).unwrap().st_ino,
            is_file: false,
        }
    }

    /// While the result lives, nobody changes the source if this world is exact.
    pub(super) fn operation(&self) -> RwLockReadGuard<'_, ()> {
        self.operations.read().unwrap()
    }

    /// Changes the source past the mirror.
    pub(super) fn change(&self, change: impl FnOnce(&Path)) {
        if !self.is_exact {
            return change(&self.source);
        }
        let _alone = self.operations.write().unwrap();
        let mut state = self.state.lock().unwrap();
        self.check(&mut state);
        change(&self.source);
        self.settle(&mut state);
    }

    /// Looks a name up.
    pub(super) fn find(&self, place: Place) -> Result<Found, Errno> {
        let (parent, name) = (place.parent.node, place.name.as_ref());
        self.enter(self.bench.bridge.mirror().lookup(parent, name)?, place)
    }

    /// Takes note of a lookup.
    pub(super) fn enter(&self, entry: Entry, place: Place) -> Result<Found, Errno> {
        let found = self
            .state
            .lock()
            .unwrap()
            .enter(entry, place, self.is_exact);
        found.inspect_err(|_| self.bench.bridge.forget(entry.node, 1))
    }

    /// Takes back a lookup of a file. Directories stay remembered, as those that somebody is in.
    pub(super) fn forget(&self, found: Found) {
        if found.is_file {
            let mut state = self.state.lock().unwrap();
            let known = state.files.get_mut(&found.inode).unwrap();
            known.lookups -= 1;
            if known.lookups == 0 {
                state.files.remove(&found.inode);
            }
            drop(state);
            self.bench.bridge.forget(found.node, 1);
        }
    }

    /// Takes back all lookups.
    pub(super) fn forget_all(&self) {
        let state = std::mem::take(&mut *self.state.lock().unwrap());
        let directories = state.directories.into_values();
        let files = state.files.into_values();
        for (node, lookups) in directories
            .map(|directory| (directory.node, directory.lookups))
            .chain(files.map(|file| (file.node, file.lookups)))
        {
            if lookups > 0 {
                self.bench.bridge.forget(node, lookups);
            }
        }
    }

    /// The present path of a place; nothing if its directory was removed.
    pub(super) fn path(&self, place: Place) -> Option<String> {
        self.state.lock().unwrap().path(&self.source, place)
    }

    /// How many names a file has.
    pub(super) fn names(&self, file: Found) -> u64 {
        let state = self.state.lock().unwrap();
        fstat(&state.files[&file.inode].held).unwrap().st_nlink
    }

    /// What must be denied of a file.
    pub(super) fn expect(&self, file: Found) -> Expected {
        let state = self.state.lock().unwrap();
        state.expected(&self.source, self.case, file.inode)
    }

    /// What was denied from the beginning of an operation to its end.
    pub(super) fn denied_throughout(&self, file: Found, expected: &Expected) -> Denials {
        let state = self.state.lock().unwrap();
        let links = &state.files[&file.inode].links;
        let kept = expected
            .links
            .iter()
            .filter(|(link, _)| links.contains_key(link));
        kept.fold(expected.floor, |all, (_, denied)| all | denied)
    }

    /// Takes note that a file was moved.
    pub(super) fn moved(&self, file: Found, from: Place, to: Place) {
        let mut state = self.state.lock().unwrap();
        let links = &mut state.files.get_mut(&file.inode).unwrap().links;
        for place in links.values_mut().filter(|place| **place == from) {
            *place = to;
        }
    }

    /// Takes note that a file has lost a name, and what it denied before.
    pub(super) fn lost(&self, file: Found, place: Place, before: &Expected) {
        let mut state = self.state.lock().unwrap();
        let known = state.files.get_mut(&file.inode).unwrap();
        known.links.retain(|_, link| *link != place);
        known.floor = before.all();
    }

    /// Finds out what is denied after a change of the source.
    pub(super) fn settle(&self, state: &mut State) {
        let seen = files(&self.source);
        for inode in state.files.keys().copied().collect::<Vec<_>>() {
            let mut links = std::mem::take(&mut state.files.get_mut(&inode).unwrap().links);
            links.retain(|_, place| state.leads(*place, inode));
            let known = state.files.get_mut(&inode).unwrap();
            if links.is_empty()
                && let Some(seen) = seen.get(&inode)
            {
                known.floor = self.denied_by_all(&seen.paths);
            }
            known.links = links;
        }
        state.before = seen
            .into_iter()
            .map(|(inode, seen)| (inode, Before::new(self, seen)))
            .collect();
    }

    /// What all of these paths deny.
    pub(super) fn denied_by_all(&self, paths: &[String]) -> Denials {
        let denials = paths.iter().map(|path| self.case.denials(path));
        denials.reduce(|all, path| all & path).unwrap_or(0)
    }
}

impl Expected {
    /// What one of the names denies.
    pub(super) fn all(&self) -> Denials {
        let links = self.links.iter();
        links.fold(self.floor, |all, (_, denied)| all | denied)
    }
}

impl State {
    fn enter(&mut self, entry: Entry, place: Place, is_exact: bool) -> Result<Found, Errno> {
        let directory = &self.directories[&place.parent.inode].held;
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let held = openat(directory, place.name, flags, Mode::empty())?;
        let (node, inode) = (entry.node, entry.attr.ino);
        if fstat(&held).unwrap().st_ino != inode {
            return Err(Errno::STALE);
        }
        let is_file = entry.attr.file_type() == FileType::RegularFile;
        // A known file with another node: an earlier file with this inode number was looked up.
        let of = |known: NodeId| (known == node).then_some(()).ok_or(Errno::STALE);
        if is_file {
            let known = self.files.entry(inode).or_insert(Known {
                node,
                lookups: 0,
                held,
                links: BTreeMap::new(),
                floor: 0,
            });
            of(known.node)?;
            known.lookups += 1;
            // In a world that is not exact, names come and go unnoticed.
            if is_exact && !known.links.values().any(|link| *link == place) {
                self.links += 1;
                known.links.insert(self.links, place);
            }
        } else {
            let known = self.directories.entry(inode).or_insert(Directory {
                node,
                lookups: 0,
                held,
            });
            of(known.node)?;
            known.lookups += 1;
        }
        Ok(Found {
            node,
            inode,
            is_file,
        })
    }

    fn path(&self, source: &Path, place: Place) -> Option<String> {
        let directory = &self.directories[&place.parent.inode].held;
        if fstat(directory).unwrap().st_nlink == 0 {
            return None;
        }
        let path = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).unwrap();
        let below = path.strip_prefix(source).ok()?.to_str().unwrap();
        Some(join(below, place.name))
    }

    /// Whether a name leads to a file.
    fn leads(&self, place: Place, inode: u64) -> bool {
        let directory = &self.directories[&place.parent.inode].held;
        let found = statat(directory, place.name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| found.st_ino == inode)
    }

    pub(super) fn expected(&self, source: &Path, case: &Case, inode: u64) -> Expected {
        let known = &self.files[&inode];
        let links = known
            .links
            .iter()
            .filter(|(_, place)| self.leads(**place, inode))
            .filter_map(|(link, place)| Some((*link, case.denials(&self.path(source, *place)?))))
            .collect();
        let floor = if known.links.is_empty() {
            known.floor
        } else {
            0
        };
        Expected { links, floor }
    }

    /// Remembers what is denied of each file, for when it has lost its names.
    pub(super) fn keep_floors(&mut self, source: &Path, case: &Case) {
        for inode in self.files.keys().copied().collect::<Vec<_>>() {
            let floor = self.expected(source, case, inode).all();
            self.files.get_mut(&inode).unwrap().floor = floor;
        }
    }
}
