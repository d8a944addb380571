//! Whether a new name for a file undoes a denial.
//!
//! Rules test a file's path, and other facts that can change without the policy being asked: its
//! length, its content, its callers. So a move is judged by all possible opens: none that is denied
//! by the old path may be allowed by the new one.

use std::path::Path;

use super::{
    Access, Action, DecidedBy, Decision, Policy, Rule, condition::Condition, reach::Reach,
};
use crate::Caller;

/// The kind of file that is moved or linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory with everything below it.
    Directory,
}

/// A change of a path below the source to another one.
#[derive(Debug, Clone, Copy)]
pub struct Move<'a> {
    /// The kind of file.
    pub kind: Kind,
    /// The old path.
    pub from: &'a Path,
    /// The new path.
    pub to: &'a Path,
}

impl Move<'_> {
    /// The reverse move.
    #[must_use]
    pub fn back(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
            ..self
        }
    }
}

impl Policy {
    /// Whether it can deny any open.
    pub fn can_deny(&self) -> bool {
        self.default == Decision::Deny || self.rules.iter().any(Rule::may_deny)
    }

    /// The rule whose denial might be lost by a move, for opens by anybody or only by `who`; `None`
    /// if all denials still hold.
    pub fn loosened_by(
        &self,
        moved: Move<'_>,
        who: Option<(Access, Caller)>,
    ) -> Option<DecidedBy<'_>> {
        // Whether an earlier rule may allow an open by the new path only.
        let mut is_allowed_before = false;
        for rule in &self.rules {
            if who.is_some_and(|who| !rule.may_match(who)) {
                continue;
            }
            let (old, new) = rule.reaches(moved);
            let is_lost = !old.is_within(new);
            if rule.may_deny() && (is_lost || is_allowed_before && old != Reach::Nothing) {
                return Some(Some(&rule.name));
            }
            is_allowed_before |= rule.may_allow() && !new.is_within(old);
            if old == Reach::Everything && rule.decides_all(who) {
                return None;
            }
        }
        let is_loosened = self.default == Decision::Deny && is_allowed_before;
        is_loosened.then_some(None)
    }

    /// The rule that denies `who` everything below a directory's new path; `None` if that is not
    /// certain.
    pub fn denied_all_over(&self, moved: Move<'_>, who: (Access, Caller)) -> Option<DecidedBy<'_>> {
        for rule in self.rules.iter().filter(|rule| rule.may_match(who)) {
            let (_, new) = rule.reaches(moved);
            if rule.may_allow() && new != Reach::Nothing {
                return None;
            }
            if rule.may_deny() && new == Reach::Everything && rule.decides_all(Some(who)) {
                return Some(Some(&rule.name));
            }
        }
        (self.default == Decision::Deny).then_some(None)
    }
}

impl Rule {
    fn may_deny(&self) -> bool {
        matches!(
            self.action,
            Action::Decide(Decision::Deny) | Action::Verify(_)
        )
    }

    fn may_allow(&self) -> bool {
        matches!(
            self.action,
            Action::Decide(Decision::Passthrough | Decision::Relay) | Action::Verify(_)
        )
    }

    /// Whether it could match an open by `who`.
    fn may_match(&self, who: (Access, Caller)) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|condition| condition.holds_for(who) != Some(false))
    }

    /// Whether it decides every open of a path that it matches, by anybody or by `who`.
    fn decides_all(&self, who: Option<(Access, Caller)>) -> bool {
        let holds = |condition: &Condition| match condition {
            Condition::Path(_) => true,
            other => who.and_then(|who| other.holds_for(who)) == Some(true),
        };
        (self.may_deny() || self.may_allow()) && self.conditions.iter().all(holds)
    }

    fn reaches(&self, moved: Move<'_>) -> (Reach, Reach) {
        let paths = self
            .conditions
            .iter()
            .find_map(|condition| match condition {
                Condition::Path(paths) => Some(paths),
                _ => None,
            });
        match paths {
            Some(paths) => paths.reaches(moved.kind, moved.from, moved.to),
            None => (Reach::Everything, Reach::Everything),
        }
    }
}
