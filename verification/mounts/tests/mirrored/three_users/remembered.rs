//! What the kernel may remember of a mount, and for how long after the source has changed.

use std::collections::HashMap;

use super::{
    operation::{At, Linked, Object, Operation},
    tree::{Tree, join, split},
};
use crate::prelude::*;

/// How many symbolic links are followed.
const MAX_LINKS: usize = 8;

/// Something that the kernel remembers. Numbers are inodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Fact {
    /// Which file has a name in a directory.
    Name(u64, String),
    /// Who may use a file.
    Access(u64),
}

/// When something was changed in the source.
#[derive(Default)]
pub(super) struct Changes(HashMap<Fact, Instant>);

impl Changes {
    /// Notes what a change of the source has made different.
    pub(super) fn note(&mut self, before: &Tree, after: &Tree) {
        let now = Instant::now();
        let paths = before.files().chain(after.files()).map(|(path, ..)| path);
        for path in paths.collect::<BTreeSet<_>>() {
            let (old, new) = (before.inode(path), after.inode(path));
            let (directory, name) = split(path);
            if old != new {
                for directory in [before, after].map(|tree| tree.inode(directory)) {
                    let Some(directory) = directory else { continue };
                    self.0.insert(Fact::Name(directory, name.to_owned()), now);
                }
            }
        }
        for (path, inode, facts) in after.files() {
            // By inode, since it may have moved.
            let known = before.inode(path) == Some(inode);
            let old = if known {
                Some(path)
            } else {
                before.path_of(inode)
            };
            let old = old.and_then(|path| before.facts(path));
            if old.is_none_or(|old| old.access != facts.access) {
                self.0.insert(Fact::Access(inode), now);
            }
        }
    }

    /// Notes a rename through the mount: what the kernel remembers of one name, it then remembers of the other.
    pub(super) fn carry(&mut self, names: &[Fact]) {
        let changes = names.iter().filter_map(|fact| self.0.get(fact));
        let last = needs!(changes.max().copied());
        let names = names.iter().filter(|fact| matches!(fact, Fact::Name(..)));
        self.0.extend(names.map(|name| (name.clone(), last)));
    }

    /// When this was changed last.
    pub(super) fn last(&self, fact: &Fact) -> Option<Instant> {
        self.0.get(fact).copied()
    }

    /// Whether one of these was changed at most this long before `at`.
    pub(super) fn any(&self, facts: &[Fact], at: Instant, bound: Duration) -> bool {
        let mut changes = facts.iter().filter_map(|fact| self.0.get(fact));
        changes.any(|change| at.saturating_duration_since(*change) <= bound)
    }
}

/// What an operation depends on.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// By what the kernel may allow it: the directories on the way, the file that a name leads to, and
    /// for an open the file's permissions.
    pub(super) allows: Vec<Fact>,
    /// By what else it may refuse it.
    pub(super) refuses: Vec<Fact>,
}

impl Remembered {
    /// `inode_of` tells which file is open in a slot.
    pub(super) fn by(
        operation: &Operation,
        tree: &Tree,
        inode_of: &dyn Fn(usize) -> Option<u64>,
    ) -> Self {
        let mut found = Walk {
            tree,
            inode_of,
            remembered: Self::default(),
        };
        match operation {
            Operation::Open { at, flags, .. } => {
                found.object(at, !flags.contains(OFlags::NOFOLLOW), true);
            }
            Operation::Reopen { from, .. } => {
                let inode = inode_of(*from).map(Fact::Access);
                found.remembered.allows.extend(inode);
            }
            Operation::Change(Object::Name(path), _) | Operation::Stat(path) => {
                found.object(&named(path), true, false);
            }
            Operation::List(path) => found.object(&named(path), true, true),
            Operation::ReadLink(path) => found.object(&named(path), false, false),
            Operation::Change(Object::Open(slot), _)
            | Operation::Write { slot, .. }
            | Operation::Allocate { slot, .. }
            | Operation::Store { slot, .. }
            | Operation::ClearAppend(slot) => {
                let inode = inode_of(*slot).map(Fact::Access);
                found.remembered.refuses.extend(inode);
            }
            Operation::Remove { at, .. } | Operation::Make(at, _) => found.name(at),
            Operation::Rename { from, to, .. } => {
                found.name(from);
                found.name(to);
            }
            Operation::Link { from, to } => {
                match from {
                    Linked::Name(at) => found.object(at, false, false),
                    Linked::Open(slot) => {
                        let inode = inode_of(*slot).map(Fact::Access);
                        found.remembered.refuses.extend(inode);
                    }
                }
                found.name(to);
            }
            Operation::SetFlags(..) | Operation::Close(_) => {}
        }
        found.remembered
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    inode_of: &'a dyn Fn(usize) -> Option<u64>,
    remembered: Remembered,
}

impl Walk<'_> {
    /// An operation on the file that a name leads to; for an open its permissions decide.
    fn object(&mut self, at: &At, follow: bool, is_open: bool) {
        let (name, found) = self.steps(at, follow);
        self.remembered.allows.extend(name);
        let access = found.map(Fact::Access);
        if is_open {
            self.remembered.allows.extend(access);
        } else {
            self.remembered.refuses.extend(access);
        }
    }

    /// An operation on a name.
    fn name(&mut self, at: &At) {
        let (name, found) = self.steps(at, false);
        self.remembered.refuses.extend(name);
        self.remembered.refuses.extend(found.map(Fact::Access));
    }

    /// Adds what decides the way to the last name. Returns that and its file.
    fn steps(&mut self, at: &At, follow: bool) -> (Option<Fact>, Option<u64>) {
        let start = match at.directory {
            None => Some(String::new()),
            Some(slot) => {
                let inode = (self.inode_of)(slot);
                self.remembered.allows.extend(inode.map(Fact::Access));
                let path = inode.and_then(|inode| self.tree.path_of(inode));
                path.map(str::to_owned)
            }
        };
        match start {
            Some(start) => self.steps_from(start, &at.path, follow, MAX_LINKS),
            None => (None, None),
        }
    }

    fn steps_from(
        &mut self,
        mut at: String,
        path: &str,
        follow: bool,
        links: usize,
    ) -> (Option<Fact>, Option<u64>) {
        let mut last = None;
        let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            let Some(directory) = self.tree.inode(&at) else {
                // It was moved away, and the kernel may still pass it.
                self.remembered.allows.extend(last);
                return (None, None);
            };
            self.remembered.allows.extend(last.take());
            self.remembered.allows.push(Fact::Access(directory));
            last = Some(Fact::Name(directory, name.to_owned()));
            let next = join(&at, name);
            let target = self.target(&next);
            match target {
                Some(target) if links > 0 && (follow || names.peek().is_some()) => {
                    self.remembered.allows.extend(last.take());
                    let (name, _) = self.steps_from(at.clone(), &target, follow, links - 1);
                    last = name;
                    at = join(&at, &target);
                }
                _ => at = next,
            }
        }
        (last, self.tree.inode(&at))
    }

    fn target(&self, path: &str) -> Option<String> {
        const LINK: u32 = 0o120_000;
        let facts = self.tree.facts(path)?;
        let is_link = facts.access.mode & 0o170_000 == LINK;
        is_link.then(|| String::from_utf8_lossy(&facts.content).into_owned())
    }
}

fn named(path: &str) -> At {
    At {
        directory: None,
        path: path.to_owned(),
    }
}
