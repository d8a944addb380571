use std::fmt;

use serde::{Deserialize, Deserializer, de};
use verimount_verity::parse_hex;

/// How far into a file its content may be compared, in bytes: one page.
const MAX_END: usize = 4096;

/// Bytes that a file must have at an offset near its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Magic {
    offset: u16,
    bytes: Vec<u8>,
}

impl Magic {
    pub(super) fn offset(&self) -> u64 {
        self.offset.into()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for Magic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" at byte {}",
            self.bytes.escape_ascii(),
            self.offset
        )
    }
}

/// The form in the document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    offset: u64,
    text: Option<String>,
    hex: Option<String>,
}

impl<'de> Deserialize<'de> for Magic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        let bytes = match (document.text, document.hex) {
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(hex)) => from_hex(&hex),
            _ => None,
        };
        let bytes = bytes.filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
            de::Error::custom(
                "allowed is either text = \"…\" or hex = \"…\", with pairs of hexadecimal digits, \
                 and not empty",
            )
        })?;
        let offset = u16::try_from(document.offset).unwrap_or(u16::MAX);
        if usize::from(offset).saturating_add(bytes.len()) <= MAX_END {
            Ok(Self { offset, bytes })
        } else {
            Err(de::Error::custom(format_args!(
                "only the first {MAX_END} bytes of a file can be looked at"
            )))
        }
    }
}

/// Decodes pairs of hexadecimal digits, with optional spaces between them.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    parse_hex(&text.replace(' ', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_come_in_pairs() {
        assert_eq!(from_hex("7f45 4C 46"), Some(b"\x7fELF".to_vec()));
        assert_eq!(from_hex(""), Some(vec![]));
        for text in ["7", "7f4", "0x7f", "7g", "é"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }
}
