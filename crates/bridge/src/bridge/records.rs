//! Records of decisions: in the audit log if there is one, and in the log that people read.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use verimount_audit::{Kept, Kind, Line, Outcome, Record, Rule};
use verimount_fuse::HELD;
use verimount_names::printable;

use super::Bridge;
use crate::{
    Caller, Register,
    policy::{Access, DecidedBy, Policy, RuleName},
};

/// An operation that was decided.
pub(super) struct Attempt<'a> {
    pub(super) operation: &'static str,
    /// `None` if it changes names.
    pub(super) access: Option<Access>,
    pub(super) caller: Caller,
    pub(super) path: Option<&'a Path>,
    /// The new path of a move or link.
    pub(super) to: Option<&'a Path>,
}

/// The rules that audit an operation.
#[derive(Default)]
pub(super) struct Audits<'a> {
    pub(super) rules: Vec<&'a RuleName>,
    /// The path by which they were asked.
    pub(super) path: Option<PathBuf>,
}

impl<R: Register> Bridge<R> {
    /// Whether anybody is told of what was denied.
    pub(super) fn records_denials(&self, policy: &Policy) -> bool {
        policy.logs_denials() || self.audit.is_some()
    }

    /// Records the decision on an operation for each rule that audits it, and for its denial.
    ///
    /// # Errors
    /// `HELD` if the operation must wait for that, `EIO` if it must not go on.
    pub(super) fn record(
        &self,
        policy: &Policy,
        attempt: &Attempt<'_>,
        audits: &Audits<'_>,
        denial: Option<DecidedBy<'_>>,
        result: &str,
    ) -> Result<(), Errno> {
        if audits.rules.is_empty() && denial.is_none() {
            return Ok(());
        }
        let audited = Attempt {
            path: audits.path.as_deref(),
            ..*attempt
        };
        let rules = audits.rules.iter();
        let decided = rules.map(|rule| (Kind::Audit, &audited, Some(*rule)));
        let decided = decided.chain(denial.map(|by| (Kind::Denial, attempt, by)));
        let outcome = match &self.audit {
            None => {
                decided.for_each(|(.., by)| policy.tally(by).decided());
                Outcome::Written
            }
            Some(audit) => {
                let lines = decided.map(|(kind, attempt, by)| -> Line {
                    let record = attempt.record(kind, &audit.mount, by, result);
                    record.line(policy.tally(by).clone())
                });
                match audit.log.keep(attempt.caller.request, lines.collect()) {
                    Kept::Held => return Err(HELD),
                    Kept::Ended(outcome) => outcome,
                }
            }
        };
        self.counters.opens.audited.add(audits.rules.len() as u64);
        for rule in &audits.rules {
            audited.log(rule, "audited");
        }
        if let Some(by) = denial {
            self.counters.opens.denied.add(1);
            if policy.logs_denials() {
                let rule = by.map_or_else(|| "the default".to_owned(), RuleName::to_string);
                attempt.log(&rule, "denied");
            }
        }
        match outcome {
            Outcome::Written => Ok(()),
            Outcome::Refused => Err(Errno::IO),
        }
    }
}

impl Attempt<'_> {
    fn record<'a>(
        &'a self,
        kind: Kind,
        mount: &'a Path,
        by: DecidedBy<'a>,
        result: &'a str,
    ) -> Record<'a> {
        let Caller { uid, gid, pid, .. } = self.caller;
        Record {
            kind,
            mount,
            rule: by.map(|rule| Rule {
                number: rule.number(),
                line: rule.line(),
                name: rule.name(),
            }),
            operation: self.operation,
            access: self.access.map(Access::name),
            path: self.path,
            to: self.to,
            result,
            uid,
            gid,
            pid,
        }
    }

    /// Tells those who read the log.
    fn log(&self, rule: impl std::fmt::Display, what: &'static str) {
        let Caller { uid, gid, pid, .. } = self.caller;
        let path = self.path.unwrap_or(Path::new("?"));
        let to = self.to.map(|to| tracing::field::display(printable(to)));
        let access = self.access.map(tracing::field::display);
        let operation = self.operation;
        tracing::info!(%rule, operation, access, path = %printable(path), to, uid, gid, pid, "{what}");
    }
}
