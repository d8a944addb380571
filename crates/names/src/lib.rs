//! How file names, and texts from elsewhere, are shown to people: on one line, with nothing in it
//! that a terminal obeys.
//!
//! A file name can hold any bytes but `/` and NUL. Shown as it is, a line feed in it would begin a
//! line of its maker's choosing, and an escape sequence would have the terminal do that maker's will.

use std::{
    ffi::OsStr,
    fmt::{self, Write},
    os::unix::ffi::OsStrExt,
};

/// Shows a file name or path, each another way: a backslash as `\\`, line feed, carriage return and
/// tab as `\n`, `\r` and `\t`, and every byte of what else is not plain as `\x` and two hexadecimal
/// digits. `printf %b` makes the name of it again.
///
/// Not plain are bytes that are not UTF-8, control characters, and those characters of Unicode that
/// separate lines or turn the direction of writing.
pub fn printable<N: AsRef<OsStr> + ?Sized>(name: &N) -> Printable<'_> {
    Printable(name.as_ref().as_bytes())
}

/// A name, to be shown by [`printable`].
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a>(&'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    other => write_character(f, other)?,
                }
            }
            write_bytes(f, chunk.invalid())?;
        }
        Ok(())
    }
}

/// Shows a text in which names have been shown already, or that was written by others: as
/// [`printable`] does, but backslashes as they are.
pub fn one_line(text: &str) -> OneLine<'_> {
    OneLine(text)
}

/// A text, to be shown by [`one_line`].
#[derive(Debug, Clone, Copy)]
pub struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.0.chars();
        characters.try_for_each(|character| write_character(f, character))
    }
}

fn write_character(f: &mut fmt::Formatter<'_>, character: char) -> fmt::Result {
    match character {
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        // Separators of lines and paragraphs, and what turns the direction of writing.
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => write_encoded(f, character),
        control if control.is_control() => write_encoded(f, control),
        plain => f.write_char(plain),
    }
}

fn write_encoded(f: &mut fmt::Formatter<'_>, character: char) -> fmt::Result {
    write_bytes(f, character.encode_utf8(&mut [0; 4]).as_bytes())
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_names_are_shown_as_they_are() {
        for name in ["a b", "comma,\"quote'", "é", "日本語", "אבג", "🦀", ""] {
            assert_eq!(printable(name).to_string(), name);
            assert_eq!(one_line(name).to_string(), name);
        }
    }

    #[test]
    fn what_is_not_plain_is_written_out() {
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

    proptest! {
        #[test]
        fn every_name_is_one_line_of_its_own(name in any::<Vec<u8>>()) {
            let text = printable(OsStr::from_bytes(&name)).to_string();
            prop_assert!(!text.contains(char::is_control));
            prop_assert_eq!(undone(&text), name);
            prop_assert_eq!(one_line(&text).to_string(), text);
        }
    }
}
