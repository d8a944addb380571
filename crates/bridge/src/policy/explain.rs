use std::fmt::Write;

use rustix::io::Errno;
use verimount_names::one_line;
use verimount_verity::FileDigest;

use super::{Action, Decision, Facts, Policy, Rule, condition::Condition};

/// What comes of a rule that is tried.
pub(super) enum Outcome<'a> {
    /// The first condition that does not hold.
    Unmet(&'a Condition),
    /// It logs the open, and leaves the decision to the following rules.
    Audits,
    Decides(Decision),
    /// It decides by the digest with which the kernel verifies the file, if it does.
    Verifies {
        digest: Option<FileDigest>,
        is_listed: bool,
    },
}

impl Outcome<'_> {
    /// The decision, if it decides.
    pub(super) fn decision(&self) -> Option<Decision> {
        match *self {
            Self::Unmet(_) | Self::Audits => None,
            Self::Decides(decision) => Some(decision),
            Self::Verifies { is_listed, .. } if is_listed => Some(Decision::Passthrough),
            Self::Verifies { .. } => Some(Decision::Deny),
        }
    }

    /// In words, after the name of the rule.
    fn words(&self, facts: &dyn Facts) -> Result<String, Errno> {
        Ok(match self {
            Self::Unmet(condition) => {
                let (condition, found) = (condition.to_string(), condition.found(facts)?);
                let (condition, found) = (one_line(&condition), one_line(&found));
                format!("does not match: requires that {condition}, but found {found}")
            }
            Self::Audits => "logs the open".to_owned(),
            Self::Decides(_) => "decides".to_owned(),
            Self::Verifies { digest: None, .. } => {
                "decides: the kernel does not verify the file".to_owned()
            }
            Self::Verifies {
                digest: Some(digest),
                is_listed,
            } => {
                let not = if *is_listed { "" } else { "not " };
                format!("decides: {digest} is {not}listed")
            }
        })
    }
}

impl Rule {
    pub(super) fn tried(&self, facts: &dyn Facts) -> Result<Outcome<'_>, Errno> {
        for condition in &self.conditions {
            if !condition.holds(facts)? {
                return Ok(Outcome::Unmet(condition));
            }
        }
        Ok(match &self.action {
            Action::Decide(decision) => Outcome::Decides(*decision),
            Action::Audit => Outcome::Audits,
            Action::Verify(digests) => {
                let digest = facts.verity_digest()?;
                Outcome::Verifies {
                    digest,
                    is_listed: digest.is_some_and(|digest| digests.contain(&digest)),
                }
            }
        })
    }
}

impl Policy {
    /// As [`Policy::decide`], in words: a line for each rule that was tried, and one for the decision.
    ///
    /// # Errors
    /// As [`Policy::decide`].
    pub fn explain(&self, facts: &dyn Facts) -> Result<String, Errno> {
        let mut text = String::new();
        let mut rules = self.rules.iter();
        let mut decision = None;
        while let (None, Some(rule)) = (decision, rules.next()) {
            let outcome = rule.tried(facts)?;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} {}", rule.name, outcome.words(facts)?);
            decision = outcome.decision();
        }
        Ok(text + &decision.unwrap_or(self.default).to_string())
    }
}
