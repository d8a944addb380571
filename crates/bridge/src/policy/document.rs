use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::{
    Access, Action, Decision, Policy, Rule, RuleName,
    condition::{Condition, Xattr},
    digests::Digests,
    error::Defect,
    glob::Paths,
    magic::Magic,
    one_or_many::OneOrMany,
    size::SizeRange,
    text::Text,
};

/// The longest text in bytes: far more than needed, and fast to parse.
pub(crate) const MAX_LEN: usize = 1 << 20;

/// The most rules: an open may have to be tested against all of them.
const MAX_RULES: usize = 1000;

/// A policy document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    default: Option<Decision>,
    #[serde(default)]
    log_denials: bool,
    #[serde(default)]
    rule: Vec<Spanned<RuleDocument>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActionWord {
    Passthrough,
    Relay,
    Deny,
    Audit,
    Verified,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum AccessWord {
    Read,
    Write,
    Any,
}

/// A rule of the document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleDocument {
    name: Option<Box<str>>,
    action: Spanned<ActionWord>,
    digests: Option<Spanned<Digests>>,
    access: Option<AccessWord>,
    caller_uid: Option<OneOrMany<u32>>,
    caller_gid: Option<OneOrMany<u32>>,
    path: Option<Paths>,
    size: Option<OneOrMany<Text<SizeRange>>>,
    owner_uid: Option<OneOrMany<u32>>,
    owner_gid: Option<OneOrMany<u32>>,
    xattr: Option<OneOrMany<Xattr>>,
    magic: Option<OneOrMany<Magic>>,
}

/// Parses a policy's text.
pub(super) fn parse(text: &str) -> Result<Policy, Defect> {
    if text.len() > MAX_LEN {
        return Err(Defect {
            at: MAX_LEN,
            message: format!("more than the {MAX_LEN} bytes that a policy can have"),
        });
    }
    let document: Document = toml::from_str(text).map_err(|error| Defect {
        at: error.span().map_or(0, |span| span.start),
        message: error.message().to_owned(),
    })?;
    if let Some(surplus) = document.rule.get(MAX_RULES) {
        return Err(Defect {
            at: surplus.span().start,
            message: format!("more than the {MAX_RULES} rules that a policy can have"),
        });
    }
    let numbered = (1..).zip(document.rule);
    let rules = numbered.map(|(number, rule)| {
        let line = line_of(text, rule.span().start);
        rule.into_inner().into_rule(number, line)
    });
    Ok(Policy {
        rules: rules.collect::<Result<_, _>>()?,
        default: document.default.unwrap_or(Decision::Passthrough),
        log_denials: document.log_denials,
        default_tally: Arc::default(),
    })
}

/// The line of the byte at an offset, counted from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    before
        .filter(|byte| *byte == b'\n')
        .count()
        .saturating_add(1)
}

impl RuleDocument {
    fn into_rule(self, number: usize, line: usize) -> Result<Rule, Defect> {
        let access = self.access.and_then(|access| match access {
            AccessWord::Read => Some(Access::Read),
            AccessWord::Write => Some(Access::Write),
            AccessWord::Any => None,
        });
        let conditions = [
            access.map(Condition::Access),
            self.caller_uid.map(Condition::CallerUid),
            self.caller_gid.map(Condition::CallerGid),
            self.path.map(Condition::Path),
            self.size.map(Condition::Size),
            self.owner_uid.map(Condition::OwnerUid),
            self.owner_gid.map(Condition::OwnerGid),
            self.xattr.map(Condition::Xattr),
            self.magic.map(Condition::Magic),
        ];
        Ok(Rule {
            name: RuleName {
                number,
                line,
                name: self.name,
            },
            action: action(self.action, self.digests)?,
            conditions: conditions.into_iter().flatten().collect(),
            tally: Arc::default(),
        })
    }
}

/// The action `verified` requires digests, and no other action allows them.
fn action(word: Spanned<ActionWord>, digests: Option<Spanned<Digests>>) -> Result<Action, Defect> {
    let at = word.span().start;
    let decision = match (word.into_inner(), digests) {
        (ActionWord::Verified, Some(digests)) => return Ok(Action::Verify(digests.into_inner())),
        (ActionWord::Verified, None) => {
            return Err(Defect {
                at,
                message: "\"verified\" needs digests = [\"sha256:…\", …]".to_owned(),
            });
        }
        (_, Some(digests)) => {
            return Err(Defect {
                at: digests.span().start,
                message: "digests need action = \"verified\"".to_owned(),
            });
        }
        (ActionWord::Audit, None) => return Ok(Action::Audit),
        (ActionWord::Passthrough, None) => Decision::Passthrough,
        (ActionWord::Relay, None) => Decision::Relay,
        (ActionWord::Deny, None) => Decision::Deny,
    };
    Ok(Action::Decide(decision))
}
