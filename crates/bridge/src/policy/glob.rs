use std::{fmt, path::Path, str::FromStr};

use globset::{Glob, GlobBuilder, GlobSet};
use serde::{Deserialize, Deserializer, de};

use super::{
    moves::Kind,
    one_or_many::OneOrMany,
    reach::{Below, Reach},
    text::Text,
};

/// The longest pattern in bytes: the longest path in Linux.
const MAX_LEN: usize = 4096;

/// Patterns of paths below the source, one of which must match.
#[derive(Debug)]
pub(super) struct Paths {
    patterns: OneOrMany<Text<Pattern>>,
    set: GlobSet,
    below: Below,
}

impl Paths {
    pub(super) fn contain(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }

    /// The paths that match at the two ends of a move of this kind.
    pub(super) fn reaches(&self, kind: Kind, from: &Path, to: &Path) -> (Reach, Reach) {
        match kind {
            Kind::File => (
                Reach::of_file(self.contain(from)),
                Reach::of_file(self.contain(to)),
            ),
            Kind::Directory => self.below.reaches(from, to),
        }
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.patterns.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let patterns: OneOrMany<Text<Pattern>> = OneOrMany::deserialize(deserializer)?;
        let globs = patterns.iter().map(|Text(Pattern(glob))| glob);
        let mut set = GlobSet::builder();
        for glob in globs.clone() {
            set.add(glob.clone());
        }
        let regexes: Vec<_> = globs.map(Glob::regex).collect();
        let below = Below::new(&regexes).map_err(de::Error::custom)?;
        let set = set.build().map_err(de::Error::custom)?;
        Ok(Self {
            patterns,
            set,
            below,
        })
    }
}

/// A pattern of paths.
#[derive(Debug)]
struct Pattern(Glob);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() || pattern.starts_with('/') {
            return Err(
                "a pattern matches paths below the source, which do not begin with \"/\"".into(),
            );
        }
        if pattern.len() > MAX_LEN {
            return Err(format!("a pattern has at most {MAX_LEN} bytes"));
        }
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        glob.map(Self).map_err(|error| {
            format!(
                "{}: allowed are *, ?, [a-z], {{one,other}} and, between slashes, **",
                error.kind()
            )
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.glob())
    }
}
