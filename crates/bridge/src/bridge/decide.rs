use std::{
    path::Path,
    sync::{Arc, PoisonError},
};

use rustix::io::Errno;
use verimount_names::printable;

use super::{Bridge, Way};
use crate::{
    Caller, Register,
    policy::{DecidedBy, Decision, Facts, Policy, RuleName},
};

/// What somebody tried, for the log.
pub(super) struct Attempt<'a> {
    pub(super) operation: &'static str,
    pub(super) caller: Caller,
    pub(super) path: Option<&'a Path>,
    /// The path that the file would have got.
    pub(super) to: Option<&'a Path>,
}

/// What the policy says.
impl<R: Register> Bridge<R> {
    /// The policy by which an operation goes from its beginning to its end.
    pub(super) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the policy says of an open, or of what counts as one, unless it denies it.
    pub(super) fn decide(
        &self,
        operation: &'static str,
        facts: &dyn Facts,
    ) -> Result<Decision, Errno> {
        let policy = self.policy();
        match policy.decide(facts, &mut |rule| self.audit(rule, facts))? {
            (Decision::Deny, by) => Err(self.deny_open(&policy, operation, facts, by)),
            (decision, _) => Ok(decision),
        }
    }

    /// How an open is to be served that the policy decided so.
    pub(super) fn way(&self, decision: Decision) -> Way {
        match decision {
            Decision::Passthrough if self.backing.can_pass_through() => Way::Passthrough,
            _ => Way::Relay,
        }
    }

    /// Fails if a policy denies an open that is not made, but would come to the same.
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

    /// Counts and logs what is denied. Returns what that fails with.
    pub(super) fn deny(&self, policy: &Policy, attempt: &Attempt<'_>, by: DecidedBy<'_>) -> Errno {
        self.counters.denied.add(1);
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
        self.counters.audits.add(1);
        let Caller { uid, gid, pid } = facts.caller();
        let (path, access) = (facts.path().unwrap_or(Path::new("?")), facts.access());
        tracing::info!(%rule, path = %printable(path), %access, uid, gid, pid, "audited an open");
    }
}
