//! What commands print with `--json`.

use std::{
    ffi::OsStr,
    fmt::Display,
    io::{self, Write},
};

use serde::Serialize;
use serde_json::{Value, json};
use verimount::Identity;
use verimount_host::{printable, printable_json};

/// The version of all reports. It is increased when a field changes its meaning, but not for new fields.
pub(crate) const VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    report: T,
}

/// What a command has made or stored: a file, as [`printable`] shows it, or the name in a registry or object store, its
/// content, if that is known, and where the superblock of dm-verity is in the file.
pub(crate) fn made(
    file: impl Display,
    identity: Option<&Identity>,
    hash_offset: Option<u64>,
) -> Value {
    let text = identity.map(ToString::to_string);
    let (digest, root_hash) = match identity {
        Some(Identity::RootHash(_)) => (None, text),
        _ => (text, None),
    };
    json!({
        "file": file.to_string(),
        "digest": digest,
        "root_hash": root_hash,
        "hash_offset": hash_offset,
    })
}

/// Prints a report, which is an object, with its version.
pub(crate) fn write_report(out: &mut impl Write, report: impl Serialize) -> io::Result<()> {
    let version = VERSION;
    write_json(out, &Versioned { version, report })
}

/// Prints a value on several lines.
pub(crate) fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string_pretty(value)?;
    writeln!(out, "{}", printable_json(&json))
}

/// Paths or names as [`printable`] shows them, as not all are text.
pub(crate) fn shown<T: AsRef<OsStr>>(names: &[T]) -> Vec<String> {
    let names = names.iter();
    names
        .map(|name| printable(name.as_ref()).to_string())
        .collect()
}

/// A value on one line.
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<String> {
    let json = serde_json::to_string(value)?;
    Ok(printable_json(&json).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the text is: the name in a model signature can be any.
    #[test]
    fn no_text_controls_a_terminal() {
        let text = "x\u{1b}[2J\u{9b}31m\u{202e}\u{2028}\u{7f}\n";
        let json = r#""x\u001b[2J\u009b31m\u202e\u2028\u007f\n""#;
        assert_eq!(json_line(&text).unwrap(), json);
        let mut report = Vec::new();
        write_json(&mut report, &[text]).unwrap();
        let report = String::from_utf8(report).unwrap();
        assert_eq!(report, format!("[\n  {json}\n]\n"));
        assert_eq!(
            serde_json::from_str::<[String; 1]>(&report).unwrap(),
            [text]
        );
    }
}
