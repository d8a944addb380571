use std::fmt;

use rustix::io::Errno;
use serde::Serialize;

use super::{Action, Decision, Facts, Policy, RuleName};

/// Why an open is decided as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What is decided.
    pub decision: Decision,
    /// The rules that were tried, in order. If the last does not decide, the default did.
    pub steps: Vec<Step>,
}

/// What came of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Which rule.
    pub rule: RuleName,
    /// What came of it.
    pub outcome: Outcome,
}

/// What can come of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It decides.
    Decides,
    /// It takes note, and leaves the decision to others.
    Audits,
    /// It does not match.
    Unmet {
        /// The first condition that does not hold.
        condition: String,
        /// What there is instead.
        found: String,
    },
}

impl Policy {
    /// As [`Policy::decide`], with all that led to it.
    ///
    /// # Errors
    /// As [`Policy::decide`].
    pub fn explain(&self, facts: &dyn Facts) -> Result<Explanation, Errno> {
        let mut steps = Vec::new();
        let mut decision = None;
        for rule in &self.rules {
            let outcome = match (rule.unmet(facts)?, rule.action) {
                (Some(condition), _) => Outcome::Unmet {
                    condition: condition.to_string(),
                    found: condition.found(facts)?,
                },
                (None, Action::Audit) => Outcome::Audits,
                (None, Action::Decide(decided)) => {
                    decision = Some(decided);
                    Outcome::Decides
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

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { rule, outcome } in &self.steps {
            match outcome {
                Outcome::Decides => return write!(f, "{rule}: matches: {}", self.decision),
                Outcome::Audits => writeln!(f, "{rule}: matches: audit")?,
                Outcome::Unmet { condition, found } => {
                    writeln!(f, "{rule}: does not match: {condition}; found {found}")?;
                }
            }
        }
        write!(f, "default: {}", self.decision)
    }
}
