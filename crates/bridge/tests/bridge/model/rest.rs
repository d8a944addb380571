//! What holds when nobody does anything: before each change of the source, and in the end.

use rustix::{fs::OFlags, io::Errno};
use verimount_bridge::{NodeId, policy::Access};

use super::{
    case::{ALL_WRITES, Denials, USERS, denies},
    walk::{Seen, files},
    world::{State, World},
};
use crate::records::Asked;

/// A file after a change of the source.
pub(super) struct Before {
    seen: Seen,
    /// What all its names deny, known or not.
    denied: Denials,
}

impl Before {
    pub(super) fn new(world: &World<'_>, seen: Seen) -> Self {
        let denied = world.denied_by_all(&seen.paths);
        Self { seen, denied }
    }

    fn paths(&self) -> &[String] {
        &self.seen.paths
    }
}

impl World<'_> {
    /// Asserts that since the last change of the source nothing was done that was denied.
    pub(super) fn check(&self, state: &mut State) {
        let mut seen = files(&self.source);
        for (inode, before) in &state.before {
            let paths = &before.seen.paths;
            let is_fixed = before.denied & ALL_WRITES == ALL_WRITES;
            let Some(now) = seen.remove(inode) else {
                assert!(!is_fixed, "{paths:?} was removed");
                continue;
            };
            let denied = self.denied_by_all(&now.paths);
            assert_eq!(before.denied & !denied, 0, "{paths:?}, now {:?}", now.paths);
            if is_fixed {
                assert_eq!(paths.len(), now.paths.len(), "{paths:?}, {:?}", now.paths);
            }
            if now.content != before.seen.content {
                let text = String::from_utf8(now.content).unwrap();
                assert!(!is_fixed, "{paths:?} was changed: {text}");
                let writer = USERS.iter().find(|uid| uid.to_string() == text);
                let may = writer.is_none_or(|uid| !denies(before.denied, *uid, Access::Write));
                assert!(may, "{paths:?} was written to by {text}");
            }
        }
        state.keep_floors(&self.source, self.case);
    }

    /// Asserts that all opens are decided by where the files are, first without looking anything up, then
    /// with all names known.
    pub(super) fn rest(&self) {
        let mut state = self.state.lock().unwrap();
        if self.is_exact {
            self.check(&mut state);
        }
        self.settle(&mut state);
        for (inode, known) in &state.files {
            let denied = state.expected(&self.source, self.case, *inode).all();
            self.open_each(known.node, |uid, access, opened| match opened {
                Ok(()) => assert!(
                    !denies(denied, uid, access),
                    "{uid} had {access} access to {:?}",
                    state.before.get(inode).map(Before::paths)
                ),
                Err(errno) => assert!(matches!(errno, Errno::ACCESS | Errno::STALE), "{errno}"),
            });
        }
        for before in state.before.values() {
            self.are_decided_by_path(before.paths());
        }
    }

    /// Asserts that exactly what one of a file's names denies is denied.
    fn are_decided_by_path(&self, paths: &[String]) {
        let denied = paths
            .iter()
            .fold(0, |all, path| all | self.case.denials(path));
        let ways: Vec<Vec<NodeId>> = paths.iter().map(|path| self.look_up(path)).collect();
        let node = *ways[0].last().unwrap();
        assert!(ways.iter().all(|way| way.last() == Some(&node)));
        self.open_each(node, |uid, access, opened| {
            let expected = if denies(denied, uid, access) {
                Err(Errno::ACCESS)
            } else {
                Ok(())
            };
            assert_eq!(opened, expected, "{paths:?} {access} {uid}");
        });
        for node in ways.into_iter().flatten() {
            self.bench.bridge.forget(node, 1);
        }
    }

    fn open_each(&self, node: NodeId, see: impl Fn(u32, Access, Result<(), Errno>)) {
        for uid in USERS {
            for (access, flags) in [
                (Access::Read, OFlags::RDONLY),
                (Access::Write, OFlags::RDWR),
            ] {
                let opened = self.records.ask(uid, Asked::Content, |caller| {
                    self.bench.bridge.open(node, caller, flags)
                });
                see(uid, access, opened.map(drop));
            }
        }
    }

    /// Looks up a path. Returns the node of each name.
    fn look_up(&self, path: &str) -> Vec<NodeId> {
        let steps = path.split('/').scan(NodeId::ROOT, |parent, name| {
            *parent = self
                .bench
                .bridge
                .mirror()
                .lookup(*parent, name.as_ref())
                .unwrap()
                .node;
            Some(*parent)
        });
        steps.collect()
    }
}
