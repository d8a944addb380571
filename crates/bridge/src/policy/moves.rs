//! What a file's new name would do to what the rules deny.
//!
//! Rules go by a file's path, and by what can change without anybody asking here: its length, its
//! content, who opens it. So what a move does is not asked of one open, but of all that there could
//! be: none that is denied by the old path may be allowed by the new one.

use std::path::Path;

use super::{
    Access, Action, DecidedBy, Decision, Policy, Rule, condition::Condition, reach::Reach,
};
use crate::Caller;

/// What is moved, or given another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory, with all that is below it.
    Directory,
}

/// A way from one path below the source to another.
#[derive(Debug, Clone, Copy)]
pub struct Move<'a> {
    /// What takes it.
    pub kind: Kind,
    /// The path that it has.
    pub from: &'a Path,
    /// The path that it gets.
    pub to: &'a Path,
}

impl Move<'_> {
    /// The way back.
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
    /// Whether there is an open that it denies.
    pub fn can_deny(&self) -> bool {
        self.default == Decision::Deny || self.rules.iter().any(Rule::may_deny)
    }

    /// Which denial might not hold any more after a move: of an open by anybody, or of one `who`.
    /// `None` if all hold.
    pub fn loosened_by(
        &self,
        moved: Move<'_>,
        who: Option<(Access, Caller)>,
    ) -> Option<DecidedBy<'_>> {
        // Whether there may be an open that would not come this far by the new path.
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

    /// By what `who` is denied all that a directory's new path leads to; `None` if not certainly all.
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

    /// Whether it decides each open by a path that it matches: by anybody, or by `who`.
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
