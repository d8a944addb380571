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

use std::{fmt, path::Path, sync::Arc};

use rustix::io::Errno;
use serde::Deserialize;
use verimount_audit::{RuleCounts, Tally};
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

/// How many rules a status shows one by one.
const MAX_SHOWN: usize = 100;

/// How much of a rule's name it shows, in characters.
const MAX_SHOWN_NAME: usize = 60;

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
    tally: Arc<Tally>,
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

impl RuleName {
    /// The number of the rule, counted from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The line on which it begins, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// As it is displayed, but not longer than fits into a status.
    fn short(&self) -> String {
        let text = self.to_string();
        match text.char_indices().nth(MAX_SHOWN_NAME) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }
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
    /// Of denials by the default.
    default_tally: Arc<Tally>,
}

impl Default for Policy {
    /// Everything is passed through.
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            default: Decision::Passthrough,
            log_denials: false,
            default_tally: Arc::default(),
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
    pub fn decide<'p>(
        &'p self,
        facts: &dyn Facts,
        audit: &mut dyn FnMut(&'p RuleName),
    ) -> Result<(Decision, DecidedBy<'p>), Errno> {
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

    /// Counts what this rule, or the default, has audited or denied.
    pub(crate) fn tally(&self, by: DecidedBy<'_>) -> &Arc<Tally> {
        let number = by.and_then(|name| name.number.checked_sub(1));
        let rule = number.and_then(|index| self.rules.get(index));
        rule.map_or(&self.default_tally, |rule| &rule.tally)
    }

    /// Goes on counting where another policy has ended, for each rule that is there, too.
    pub(crate) fn go_on_counting(&mut self, before: &Self) {
        self.default_tally = Arc::clone(&before.default_tally);
        for rule in &mut self.rules {
            let same = before.rules.iter().find(|old| old.name == rule.name);
            if let Some(same) = same {
                rule.tally = Arc::clone(&same.tally);
            }
        }
    }

    /// What each rule, and at last the default, has audited or denied, if anything. It fits into a status.
    pub(crate) fn counts(&self) -> Vec<(String, RuleCounts)> {
        let counted =
            |tally: &Tally| Some(tally.counts()).filter(|it| *it != RuleCounts::default());
        let rules = self.rules.iter();
        let mut rules = rules.filter_map(|rule| Some((&rule.name, counted(&rule.tally)?)));
        let named = rules.by_ref().take(MAX_SHOWN);
        let mut all: Vec<_> = named.map(|(name, counts)| (name.short(), counts)).collect();
        let further = rules.map(|(_, counts)| counts).reduce(RuleCounts::plus);
        all.extend(further.map(|counts| ("further rules".to_owned(), counts)));
        let default = counted(&self.default_tally);
        all.extend(default.map(|counts| ("the default".to_owned(), counts)));
        all
    }
}
