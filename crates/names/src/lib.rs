//! Escapes file names, and texts from outside, for display: on one line, without control sequences.
//!
//! A file name can contain any bytes but `/` and NUL. Shown unescaped, a line feed in it would
//! start a forged line, and an escape sequence would control the terminal.
//!
//! [`named!`] declares enumerations whose values have names of their own.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod named;

use std::{ffi::OsStr, fmt, os::unix::ffi::OsStrExt};

/// Escapes a file name or path so that different names look different: a backslash becomes `\\`;
/// line feed, carriage return and tab become `\n`, `\r` and `\t`; every other special byte becomes
/// `\x` and two hexadecimal digits. `printf %b` restores the name.
///
/// Special are bytes that are not UTF-8, control characters, and Unicode characters that separate
/// lines or change the direction of writing.
pub fn printable<N: AsRef<OsStr> + ?Sized>(name: &N) -> Printable<'_> {
    Printable(name.as_ref().as_bytes())
}

/// A name that is escaped on display, see [`printable`].
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a>(&'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            let is_escaped = |character| character == '\\' || is_special(character);
            write_escaped(f, chunk.valid(), is_escaped, write_special)?;
            write_bytes(f, chunk.invalid())?;
        }
        Ok(())
    }
}

/// Escapes a text that contains escaped names, or comes from outside: as [`printable`], but keeps
/// backslashes.
pub fn one_line(text: &str) -> OneLine<'_> {
    OneLine(text)
}

/// A text that is escaped on display, see [`one_line`].
#[derive(Debug, Clone, Copy)]
pub struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0, is_special, write_special)
    }
}

/// Escapes a JSON text, which then means the same: special characters of [`printable`] that JSON allows in strings become `\u`
/// and four hexadecimal digits. White space between values stays.
pub fn printable_json(json: &str) -> PrintableJson<'_> {
    PrintableJson(json)
}

/// A JSON text that is escaped on display, see [`printable_json`].
#[derive(Debug, Clone, Copy)]
pub struct PrintableJson<'a>(&'a str);

impl fmt::Display for PrintableJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_escaped =
            |character: char| is_special(character) && !character.is_ascii_whitespace();
        // Below U+10000, all of them.
        write_escaped(f, self.0, is_escaped, |f, special| {
            write!(f, "\\u{:04x}", u32::from(special))
        })
    }
}

/// Whether a character controls a terminal, separates lines or paragraphs, or changes the direction of writing.
fn is_special(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes a text of which each character that `is_escaped` is written by `escape`; the rest, of most texts all, at once.
fn write_escaped(
    f: &mut fmt::Formatter<'_>,
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    escape: impl Fn(&mut fmt::Formatter<'_>, char) -> fmt::Result,
) -> fmt::Result {
    let mut rest = text;
    while let Some((plain, behind)) = rest.find(&is_escaped).map(|at| rest.split_at(at)) {
        f.write_str(plain)?;
        let mut characters = behind.chars();
        characters.next().map_or(Ok(()), |first| escape(f, first))?;
        rest = characters.as_str();
    }
    f.write_str(rest)
}

fn write_special(f: &mut fmt::Formatter<'_>, character: char) -> fmt::Result {
    match character {
        '\\' => f.write_str("\\\\"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        special => write_bytes(f, special.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use arbtest::arbtest;

    use super::*;

    #[test]
    fn ordinary_names_are_unchanged() {
        for name in ["a b", "comma,\"quote'", "é", "日本語", "אבג", "🦀", ""] {
            assert_eq!(printable(name).to_string(), name);
            assert_eq!(one_line(name).to_string(), name);
        }
    }

    #[test]
    fn special_characters_are_escaped() {
        for (name, expected) in [
            (&b"two\nlines\r\t"[..], r"two\nlines\r\t"),
            (b"\x1b[31m\x07\x7f", r"\x1b[31m\x07\x7f"),
            (b"back\\slash", r"back\\slash"),
            (b"\xff\xfe not text", r"\xff\xfe not text"),
            // The control sequence introducer in one character; and half of one.
            ("\u{9b}31m".as_bytes(), r"\xc2\x9b31m"),
            (b"\xc2", r"\xc2"),
            ("\u{2028}".as_bytes(), r"\xe2\x80\xa8"),
            ("\u{202e}gpj.exe".as_bytes(), r"\xe2\x80\xaegpj.exe"),
        ] {
            assert_eq!(printable(OsStr::from_bytes(name)).to_string(), expected);
        }
        assert_eq!(one_line("a\\b\u{1b}\n").to_string(), r"a\b\x1b\n");
    }

    /// RFC 8259 has four digits for each character below U+10000, and leaves U+007F and those above as they are.
    #[test]
    fn json_is_escaped_and_means_the_same() {
        for (json, expected) in [
            (
                "{\n  \"é\": [1, \"a\\n\"]\n}",
                "{\n  \"é\": [1, \"a\\n\"]\n}",
            ),
            ("\"\u{7f}\u{9b}31m\"", r#""\u007f\u009b31m""#),
            ("\"\u{2028}\u{202e}\u{2069}\"", r#""\u2028\u202e\u2069""#),
        ] {
            assert_eq!(printable_json(json).to_string(), expected);
        }
    }

    /// What `printf %b` makes of a text.
    fn undone(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        loop {
            rest = match rest {
                [b'\\', b'x', digits @ ..] => {
                    let digits = digits.split_at(2);
                    let number = str::from_utf8(digits.0).unwrap();
                    bytes.push(u8::from_str_radix(number, 16).unwrap());
                    digits.1
                }
                [b'\\', letter, rest @ ..] => {
                    let letters = [(b'\\', b'\\'), (b'n', b'\n'), (b'r', b'\r'), (b't', b'\t')];
                    let found = letters.iter().find(|(from, _)| from == letter);
                    bytes.push(found.unwrap().1);
                    rest
                }
                [plain, rest @ ..] => {
                    bytes.push(*plain);
                    rest
                }
                [] => return bytes,
            };
        }
    }

    #[test]
    fn every_name_is_one_line_of_its_own() {
        arbtest(|u| {
            let name: &[u8] = u.arbitrary()?;
            let text = printable(OsStr::from_bytes(name)).to_string();
            assert!(!text.contains(char::is_control));
            assert_eq!(undone(&text), name);
            assert_eq!(one_line(&text).to_string(), text);
            Ok(())
        })
        .size_max(100);
    }
}
