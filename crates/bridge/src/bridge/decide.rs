use std::{path::Path, sync::Arc};

use rustix::io::Errno;
use verimount_names::printable;

use super::{Bridge, Way};
use crate::{
    Caller, Register,
    open_facts::OpenFacts,
    policy::{DecidedBy, Decision, Facts, Policy, RuleName},
};

/// A denied operation, for the log.
pub(super) struct Attempt<'a> {
    pub(super) operation: &'static str,
    pub(super) caller: Caller,
    pub(super) path: Option<&'a Path>,
    /// The new path of a move or link.
    pub(super) to: Option<&'a Path>,
}

/// Decisions of the policy.
impl<R: Register> Bridge<R> {
    /// The present policy. An operation uses one policy from beginning to end.
    pub(super) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read())
    }

    /// The policy's decision on an open, or on an operation that counts as one; an error if it is
    /// denied.
    pub(super) fn decide(
        &self,
        operation: &'static str,
        facts: &dyn Facts,
    ) -> Result<Decision, Errno> {
        self.decide_by(&self.policy(), operation, facts)
    }

    fn decide_by(
        &self,
        policy: &Policy,
        operation: &'static str,
        facts: &dyn Facts,
    ) -> Result<Decision, Errno> {
        match policy.decide(facts, &mut |rule| self.audit(rule, facts))? {
            (Decision::Deny, by) => Err(self.deny_open(policy, operation, facts, by)),
            (decision, _) => Ok(decision),
        }
    }

    /// The policy's decision on an open of a file that may have several names; an error if one of them is denied.
    pub(super) fn decide_open(
        &self,
        operation: &'static str,
        facts: &mut OpenFacts<'_>,
    ) -> Result<Decision, Errno> {
        let policy = self.policy();
        let decision = self.decide_by(&policy, operation, facts)?;
        while facts.next_path() {
            self.permit(&policy, operation, facts)?;
        }
        Ok(decision)
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
        match policy.decide(facts, &mut |_| {})? {
            (Decision::Deny, by) => Err(self.deny_open(policy, operation, facts, by)),
            _ => Ok(()),
        }
    }

    fn deny_open(
        &self,
        policy: &Policy,
        operation: &'static str,
        facts: &dyn Facts,
        by: DecidedBy<'_>,
    ) -> Errno {
        let attempt = Attempt {
            operation,
            caller: facts.caller(),
            path: policy.logs_denials().then(|| facts.path().ok()).flatten(),
            to: None,
        };
        self.deny(policy, &attempt, by)
    }

    /// Counts and logs a denial. Returns the error of the operation.
    pub(super) fn deny(&self, policy: &Policy, attempt: &Attempt<'_>, by: DecidedBy<'_>) -> Errno {
        self.counters.opens.denied.add(1);
        if policy.logs_denials() {
            let Caller { uid, gid, pid } = attempt.caller;
            let path = attempt.path.unwrap_or(Path::new("?"));
            let to = attempt.to.map(|to| tracing::field::display(printable(to)));
            let by = by.map_or_else(|| "the default".to_owned(), RuleName::to_string);
            let operation = attempt.operation;
            tracing::info!(operation, path = %printable(path), to, uid, gid, pid, by, "denied");
        }
        Errno::ACCESS
    }

    fn audit(&self, rule: &RuleName, facts: &dyn Facts) {
        self.counters.opens.audited.add(1);
        let Caller { uid, gid, pid } = facts.caller();
        let (path, access) = (facts.path().unwrap_or(Path::new("?")), facts.access());
        tracing::info!(%rule, path = %printable(path), %access, uid, gid, pid, "audited an open");
    }
}
