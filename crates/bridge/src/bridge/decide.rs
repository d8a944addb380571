use std::{path::Path, sync::Arc};

use rustix::io::Errno;

use super::{
    Bridge, Way,
    records::{Attempt, Audits},
};
use crate::{
    Register,
    open_facts::OpenFacts,
    policy::{DecidedBy, Decision, Facts, Policy},
};

/// Decisions of the policy.
impl<R: Register> Bridge<R> {
    /// The present policy. An operation uses one policy from beginning to end.
    pub(super) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read())
    }

    /// The policy's decision on an open, or on an operation that counts as one, of a file that may have several names; an error
    /// if one of them is denied.
    pub(super) fn decide(
        &self,
        operation: &'static str,
        mut facts: OpenFacts<'_>,
    ) -> Result<Decision, Errno> {
        let policy = self.policy();
        let mut audits = Audits::default();
        let mut decided = policy.decide(&facts, &mut |rule| audits.rules.push(rule));
        audits.find_path(&facts);
        while allows(&decided) && facts.next_path() {
            let other = policy.decide(&facts, &mut |_| {});
            if !allows(&other) {
                decided = other;
            }
        }
        self.settle(&policy, operation, &facts, &audits, decided)
    }

    /// The serving mode for a decision of the policy.
    pub(super) fn way(&self, decision: Decision) -> Way {
        match decision {
            Decision::Passthrough if self.backing.can_pass_through() => Way::Passthrough,
            _ => Way::Relay,
        }
    }

    /// Fails if the policy denies an open with the effect of this operation.
    pub(super) fn permit(
        &self,
        policy: &Policy,
        operation: &'static str,
        facts: &dyn Facts,
    ) -> Result<(), Errno> {
        let decided = policy.decide(facts, &mut |_| {});
        self.settle(policy, operation, facts, &Audits::default(), decided)
            .map(drop)
    }

    /// Keeps the records of what was decided, with those rules that audit it.
    fn settle(
        &self,
        policy: &Policy,
        operation: &'static str,
        facts: &dyn Facts,
        audits: &Audits<'_>,
        decided: Result<(Decision, DecidedBy<'_>), Errno>,
    ) -> Result<Decision, Errno> {
        let denial = match decided {
            Ok((Decision::Deny, by)) => Some(by),
            _ => None,
        };
        let wants_path = denial.is_some() && self.records_denials(policy);
        let attempt = Attempt {
            operation,
            access: Some(facts.access()),
            caller: facts.caller(),
            path: wants_path.then(|| facts.path().ok()).flatten(),
            to: None,
        };
        let result = decided.map_or("error", |(decision, _)| decision.name());
        self.record(policy, &attempt, audits, denial, result)?;
        match decided? {
            (Decision::Deny, _) => Err(Errno::ACCESS),
            (decision, _) => Ok(decision),
        }
    }

    /// Records a denial. Returns the error of the operation.
    pub(super) fn deny(&self, policy: &Policy, attempt: &Attempt<'_>, by: DecidedBy<'_>) -> Errno {
        let result = Decision::Deny.name();
        match self.record(policy, attempt, &Audits::default(), Some(by), result) {
            Ok(()) => Errno::ACCESS,
            Err(errno) => errno,
        }
    }
}

fn allows(decided: &Result<(Decision, DecidedBy<'_>), Errno>) -> bool {
    matches!(decided, Ok((decision, _)) if *decision != Decision::Deny)
}

impl Audits<'_> {
    /// Finds out by which path, if any rule audits it.
    fn find_path(&mut self, facts: &dyn Facts) {
        if !self.rules.is_empty() {
            self.path = facts.path().ok().map(Path::to_owned);
        }
    }
}
