//! What commands print with `--json`.

use std::{
    fmt::Display,
    io::{self, Write},
};

use serde::Serialize;
use verimount::Identity;

/// The version of all reports. It is increased when a field changes its meaning, but not for new fields.
pub(crate) const VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    report: T,
}

/// What a command has made or stored.
#[derive(Serialize)]
pub(crate) struct Made {
    /// The file, as [`printable`](verimount::printable) shows it, or the name in a registry or object store.
    file: String,
    digest: Option<String>,
    root_hash: Option<String>,
    /// Where the superblock of dm-verity is in the file.
    hash_offset: Option<u64>,
}

impl Made {
    /// Something with this content, if that is known.
    pub(crate) fn new(file: impl Display, identity: Option<&Identity>) -> Self {
        let text = identity.map(ToString::to_string);
        let (digest, root_hash) = match identity {
            Some(Identity::RootHash(_)) => (None, text),
            _ => (text, None),
        };
        Self {
            file: file.to_string(),
            digest,
            root_hash,
            hash_offset: None,
        }
    }

    /// The same, with a superblock in the file.
    pub(crate) fn with_hash_offset(self, hash_offset: Option<u64>) -> Self {
        Self {
            hash_offset,
            ..self
        }
    }
}

/// Prints a report, which is an object, with its version.
pub(crate) fn write_report(out: &mut impl Write, report: impl Serialize) -> io::Result<()> {
    let version = VERSION;
    let report = serde_json::to_string_pretty(&Versioned { version, report })?;
    writeln!(out, "{report}")
}
