//! Choices by which results are likely to differ.

use super::Fuzz;
use crate::three_users::{
    operation::{Operation, SLOTS},
    user::{ORDINARY_USERS, USERS},
};

impl Fuzz {
    pub(super) fn known(&self) -> Vec<String> {
        let paths = self.tree.files().map(|(path, ..)| path.to_owned());
        paths.collect()
    }

    /// A user: rather one who owns the file or has opened it.
    pub(super) fn likely_user(&mut self, operation: &Operation) -> usize {
        let owner = |uid: u32| USERS.iter().position(|ids| ids.uid == uid);
        let likely = match operation.slot() {
            Some(slot) => self.open[slot].as_ref().map(|pair| pair.opener),
            None => {
                let path = operation.paths().first().copied();
                let facts = path.and_then(|path| self.tree.facts(path));
                facts.and_then(|facts| owner(facts.access.uid))
            }
        };
        let any = match self.generator.random.below(4) {
            0 => self.generator.random.below(USERS.len()),
            _ => self.generator.random.below(ORDINARY_USERS),
        };
        if self.generator.random.coin() {
            likely.unwrap_or(any)
        } else {
            any
        }
    }

    /// The slots in use; of those with files that were changed of late, only these, every other time.
    pub(super) fn likely_slots(&mut self) -> Vec<usize> {
        let used = (0..SLOTS).filter(|slot| self.open[*slot].is_some());
        let used: Vec<_> = used.collect();
        let is_recent = |slot: &usize| {
            let inode = self.open[*slot].as_ref().map(|pair| pair.inode);
            let mut recent = self.generator.recent.iter();
            recent.any(|path| inode.is_some() && self.tree.inode(path) == inode)
        };
        let recent: Vec<_> = used.iter().copied().filter(is_recent).collect();
        if !recent.is_empty() && self.generator.random.coin() {
            recent
        } else {
            used
        }
    }
}
