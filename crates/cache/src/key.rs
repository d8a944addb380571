use std::fmt;

use thiserror::Error;
use verimount_names::named;

/// The longest key, in bytes: enough for the name and the digits of any digest.
const MAX_KEY: usize = 160;

/// Identifies content, such as `sha256-3d24…`: one key must never stand for two contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

/// The text is no key: it is empty, longer than 160 bytes, or has other characters than lower-case letters,
/// digits and `-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it is not a key of a cache")]
pub struct InvalidKey;

named! {
    /// A part of content. Each is kept by itself, however they are stored where they come from.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Part {
        /// Its data.
        Data = "data",
        /// The Merkle tree over that.
        Tree = "tree",
        /// What says how both are to be read.
        Seal = "seal",
        /// Which contents came last from one place, with a key made of the digest of that place's name.
        Origin = "origin",
        /// The manifest of an image in a registry, with a key made of its own digest.
        Manifest = "manifest",
    }
}

impl Key {
    /// # Errors
    /// [`InvalidKey`].
    pub fn new(text: &str) -> Result<Self, InvalidKey> {
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if matches!(text.len(), 1..=MAX_KEY) && text.bytes().all(is_allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidKey)
        }
    }

    /// The name of an object's file.
    pub(crate) fn file_name(&self, part: Part) -> String {
        format!("{self}.{part}")
    }

    /// The key and part of an object's file; `None` for another file.
    pub(crate) fn of_file_name(name: &str) -> Option<(Self, Part)> {
        let (key, part) = name.split_once('.')?;
        let part = Part::ALL.into_iter().find(|known| known.name() == part)?;
        Some((Self::new(key).ok()?, part))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_of_files() {
        let key = Key::new("sha256-3d24").unwrap();
        for part in Part::ALL {
            let name = key.file_name(part);
            assert_eq!(Key::of_file_name(&name), Some((key.clone(), part)));
        }
        let long = "a".repeat(161);
        for wrong in ["", "..", "a/b", "A", "a.b", "a b", &long] {
            assert_eq!(Key::new(wrong), Err(InvalidKey), "{wrong}");
        }
        for wrong in ["", "lock", "a", "a.b", "a.data.b", ".data", "../a.data"] {
            assert_eq!(Key::of_file_name(wrong), None, "{wrong}");
        }
    }
}
