use std::fmt;

use rustix::io::Errno;
use serde::Serialize;
use verimount_names::one_line;

use super::{Action, Decision, Facts, Policy, RuleName, digests::Found};

/// Why an open is decided in this way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// The rules that were tried, in order. If the last one does not decide, the default does.
    pub steps: Vec<Step>,
}

/// A rule that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The rule.
    pub rule: RuleName,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It decides.
    Decides,
    /// It decides by the digest with which the kernel verifies the file.
    Verifies {
        /// This digest, if there is one.
        digest: Option<String>,
        /// Whether the rule lists it.
        listed: bool,
    },
    /// It logs the open, and leaves the decision to the following rules.
    Audits,
    /// It does not match.
    Unmet {
        /// The first condition that does not hold.
        condition: String,
        /// The actual value.
        found: String,
    },
}

impl Policy {
    /// As [`Policy::decide`], with the outcome of each rule.
    ///
    /// # Errors
    /// As [`Policy::decide`].
    pub fn explain(&self, facts: &dyn Facts) -> Result<Explanation, Errno> {
        let mut steps = Vec::new();
        let mut decision = None;
        for rule in &self.rules {
            let outcome = match (rule.unmet(facts)?, &rule.action) {
                (Some(condition), _) => Outcome::Unmet {
                    condition: condition.to_string(),
                    found: condition.found(facts)?,
                },
                (None, Action::Audit) => Outcome::Audits,
                (None, Action::Decide(decided)) => {
                    decision = Some(*decided);
                    Outcome::Decides
                }
                (None, Action::Verify(digests)) => {
                    let found = digests.find(facts)?;
                    decision = Some(found.decision());
                    found.into()
                }
            };
            steps.push(Step {
                rule: rule.name.clone(),
                outcome,
            });
            if decision.is_some() {
                break;
            }
        }
        let decision = decision.unwrap_or(self.default);
        Ok(Explanation { decision, steps })
    }
}

impl From<Found> for Outcome {
    fn from(found: Found) -> Self {
        let (digest, listed) = match found {
            Found::Listed(digest) => (Some(digest), true),
            Found::Unlisted(digest) => (Some(digest), false),
            Found::Unverified => (None, false),
        };
        Self::Verifies {
            digest: digest.map(|digest| digest.to_string()),
            listed,
        }
    }
}

impl fmt::Display for Explanation {
    /// A line for each step, and one for the decision.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { rule, outcome } in &self.steps {
            match outcome {
                Outcome::Decides => writeln!(f, "{rule} decides")?,
                Outcome::Verifies {
                    digest: Some(digest),
                    listed,
                } => {
                    let listed = if *listed { "listed" } else { "not listed" };
                    writeln!(f, "{rule} decides: {digest} is {listed}")?;
                }
                Outcome::Verifies { digest: None, .. } => {
                    writeln!(f, "{rule} decides: the kernel does not verify the file")?;
                }
                Outcome::Audits => writeln!(f, "{rule} logs the open")?,
                Outcome::Unmet { condition, found } => {
                    let (condition, found) = (one_line(condition), one_line(found));
                    writeln!(
                        f,
                        "{rule} does not match: requires that {condition}, but found {found}"
                    )?;
                }
            }
        }
        write!(f, "{}", self.decision)
    }
}
