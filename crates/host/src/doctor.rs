//! What this machine allows, what is slow on it, and what mends that.

mod content;
mod fuse;
mod machine;

use std::path::Path;

use serde::Serialize;

pub(crate) use fuse::uring_is_on;
pub use verimount_remote::has_system_certificates;

/// What was found out about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// What it is about, such as `/dev/fuse`.
    pub about: &'static str,
    /// Whether it is as it should be.
    pub health: Health,
    /// What was found.
    pub found: String,
    /// What mends it: a command, or a sentence if there is none.
    pub cure: Option<String>,
}

/// Whether something is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nothing is to be done.
    Good,
    /// Something is slow, or impossible for some.
    Limited,
    /// Without it, nothing can be mounted.
    Missing,
}

impl Diagnosis {
    pub(crate) fn good(about: &'static str, found: impl Into<String>) -> Self {
        Self {
            about,
            health: Health::Good,
            found: found.into(),
            cure: None,
        }
    }

    pub(crate) fn limited(
        about: &'static str,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self {
            health: Health::Limited,
            cure: Some(cure.into()),
            ..Self::good(about, found)
        }
    }

    /// Good, or limited with what was found and what mends it.
    pub(crate) fn judged(
        about: &'static str,
        is_good: bool,
        good: impl Into<String>,
        (found, cure): (impl Into<String>, impl Into<String>),
    ) -> Self {
        if is_good {
            Self::good(about, good)
        } else {
            Self::limited(about, found, cure)
        }
    }

    fn missing(about: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            health: Health::Missing,
            ..Self::limited(about, found, cure)
        }
    }
}

/// Examines what this user can do on this machine, with `cache` as the directory for content of URLs. Nothing is changed,
/// and nothing is mounted.
///
/// ```
/// for diagnosis in verimount_host::doctor::examine(None) {
///     println!("{}: {}", diagnosis.about, diagnosis.found);
/// }
/// ```
pub fn examine(cache: Option<&Path>) -> Vec<Diagnosis> {
    [fuse::examine(), machine::examine(), content::examine(cache)].concat()
}
