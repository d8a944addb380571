//! Decides opens by the first matching rule, and refuses changes of names that would
//! undo a denial.
//!
//! The language is specified in `docs/POLICY.md`.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

use std::{fmt, path::Path};

use rustix::io::Errno;
use serde::Deserialize;
use verimount_names::named;

use condition::Condition;
use digests::Digests;
use explain::Outcome;

mod condition;
mod digests;
mod document;
mod error;
mod explain;
mod facts;
mod glob;
mod magic;
mod moves;
mod one_or_many;
mod reach;
mod size;
mod text;

pub use error::PolicyError;
pub use facts::{Access, Facts};
pub use moves::{Kind, Move};

named! {
    /// How a file's content is read and written.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Decision {
        /// By the kernel directly.
        Passthrough = "passthrough",
        /// Through this process.
        Relay = "relay",
        /// Not at all: the open fails with `EACCES`.
        Deny = "deny",
    }
}

/// What a rule does with an open that it matches.
#[derive(Debug)]
enum Action {
    /// Decide it.
    Decide(Decision),
    /// Pass a file with one of these digests through, deny all others.
    Verify(Digests),
    /// Log it, and try the following rules.
    Audit,
}

#[derive(Debug)]
struct Rule {
    name: RuleName,
    action: Action,
    /// All must hold. In order of their cost.
    conditions: Vec<Condition>,
}

/// The name of a rule in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleName {
    /// The number of the rule, counted from 1.
    number: usize,
    /// The line on which it begins, counted from 1.
    line: usize,
    name: Option<Box<str>>,
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} (line {})", self.number, self.line)?;
        match &self.name {
            Some(name) => write!(f, " {name:?}"),
            None => Ok(()),
        }
    }
}

/// The rule that decided, or `None` for the default.
pub type DecidedBy<'a> = Option<&'a RuleName>;

/// Rules and a default. Immutable; a new policy replaces it.
#[derive(Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    default: Decision,
    log_denials: bool,
}

impl Default for Policy {
    /// Everything is passed through.
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            default: Decision::Passthrough,
            log_denials: false,
        }
    }
}

impl Policy {
    /// Parses a policy's text; `file` is its name in messages.
    ///
    /// # Errors
    /// The position of the error, and the allowed values.
    pub fn parse(text: &str, file: &Path) -> Result<Self, PolicyError> {
        document::parse(text).map_err(|defect| PolicyError::new(defect, text, file))
    }

    /// Whether denials are logged.
    pub fn logs_denials(&self) -> bool {
        self.log_denials
    }

    /// Decides an open. Calls `audit` for each matching `audit` rule.
    ///
    /// # Errors
    /// Those of reading a fact that a rule tests. The open is then not decided.
    pub fn decide(
        &self,
        facts: &dyn Facts,
        audit: &mut dyn FnMut(&RuleName),
    ) -> Result<(Decision, DecidedBy<'_>), Errno> {
        for rule in &self.rules {
            let outcome = rule.tried(facts)?;
            if let Outcome::Audits = outcome {
                audit(&rule.name);
            }
            if let Some(decision) = outcome.decision() {
                return Ok((decision, Some(&rule.name)));
            }
        }
        Ok((self.default, None))
    }
}
