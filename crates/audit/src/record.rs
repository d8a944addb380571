use std::{
    fmt::Display,
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};
use verimount_names::{named, printable, printable_json};

use crate::{Line, Tally};

/// The version of the schema. It is increased when a field changes its meaning, but not for new fields.
const VERSION: u32 = 1;

named! {
    /// Why there is a record.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Kind {
        /// A rule wants one.
        Audit = "audit",
        /// The operation was denied.
        Denial = "denial",
    }
}

/// The rule that decided.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rule<'a> {
    /// Its number in the policy, counted from 1.
    pub number: usize,
    /// The line on which it begins, counted from 1.
    pub line: usize,
    /// Its name, if it has one.
    #[serde(serialize_with = "shown_option")]
    pub name: Option<&'a str>,
}

/// A decision. `docs/POLICY.md` has the schema.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Record<'a> {
    /// Why there is a record of it.
    #[serde(serialize_with = "displayed")]
    pub kind: Kind,
    /// The mount point.
    #[serde(serialize_with = "shown")]
    pub mount: &'a Path,
    /// `None` for the default.
    pub rule: Option<Rule<'a>>,
    /// What was to be done.
    pub operation: &'a str,
    /// `read` or `write`, if it is an open.
    pub access: Option<&'a str>,
    /// The path below the source, if it is known.
    #[serde(serialize_with = "shown_option")]
    pub path: Option<&'a Path>,
    /// The new path of what is moved or gets another name.
    #[serde(serialize_with = "shown_option")]
    pub to: Option<&'a Path>,
    /// What was decided.
    pub result: &'a str,
    /// The caller's user.
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    /// The caller's thread; 0 if it is in another PID namespace.
    pub pid: u32,
}

impl Record<'_> {
    /// Its line, which counts for `tally`.
    pub fn line(&self, tally: Arc<Tally>) -> Line {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.unwrap_or_default().as_nanos();
        // Nothing in it can fail: its keys are text.
        let json = serde_json::to_string(self).unwrap_or_default();
        let json = printable_json(json.get(1..).unwrap_or_default());
        let head = format!("{{\"version\":{VERSION},\"time\":{time},\"lost\":");
        let body = head.len();
        let text = format!("{head}0,{json}\n").into_bytes();
        Line { text, body, tally }
    }
}

fn displayed<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&printable(path))
}

fn shown_option<S: Serializer>(
    name: &Option<impl AsRef<std::ffi::OsStr>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match name {
        Some(name) => serializer.collect_str(&printable(name.as_ref())),
        None => serializer.serialize_none(),
    }
}
