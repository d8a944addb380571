//! How the message and the fields of a line are written: no value can begin another line, or be taken for another field.

use std::{
    fmt::{self, Debug, Display},
    mem,
};

use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};
use verimount_host::one_line;

use crate::json::json_line;

/// The message, and then each field as `name=value`. What comes from outside belongs to fields.
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line {
            writer,
            gap: "",
            written: Ok(()),
        };
        fields.record(&mut line);
        line.written
    }
}

/// A line that is being written.
struct Line<'w> {
    writer: Writer<'w>,
    /// What comes before the next field.
    gap: &'static str,
    written: fmt::Result,
}

impl Line<'_> {
    fn add(&mut self, field: &Field, text: &str) -> fmt::Result {
        let gap = mem::replace(&mut self.gap, " ");
        match field.name() {
            "message" => write!(self.writer, "{gap}{}", one_line(text)),
            name => write!(self.writer, "{gap}{name}={}", Value(text)),
        }
    }
}

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.written = self.written.and_then(|()| self.add(field, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// A field's value: as it is if it is a plain word, else as a string of JSON.
struct Value<'a>(&'a str);

impl Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        let is_word = !text.is_empty() && text.chars().all(is_plain);
        if is_word {
            return f.write_str(text);
        }
        f.write_str(&json_line(text).map_err(|_| fmt::Error)?)
    }
}

/// Letters, digits and marks, but for those that begin a value or a string. Of spaces there are many kinds.
fn is_plain(character: char) -> bool {
    let is_mark = character.is_ascii_punctuation() && !matches!(character, '"' | '=');
    is_mark || character.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Seek},
        sync::Arc,
    };

    use tracing::subscriber::with_default;
    use tracing_subscriber::{fmt, layer::SubscriberExt, registry};

    use super::*;

    #[test]
    fn words_are_plain_and_all_else_is_a_string_of_json() {
        for word in ["7", "secrets/key", r"a\nb", "sha256:3d24", "日本語", "-"] {
            assert_eq!(Value(word).to_string(), word);
        }
        for (text, expected) in [
            ("", r#""""#),
            ("a access=read uid=0", r#""a access=read uid=0""#),
            ("uid=0", r#""uid=0""#),
            ("a\" uid=0", r#""a\" uid=0""#),
            (r"a b\", r#""a b\\""#),
            ("a\u{a0}b", "\"a\u{a0}b\""),
            ("a\nERROR", r#""a\nERROR""#),
            ("\u{9b}31m\u{202e}\u{2028}", r#""\u009b31m\u202e\u2028""#),
        ] {
            assert_eq!(Value(text).to_string(), expected);
            assert_eq!(serde_json::from_str::<String>(expected).unwrap(), text);
        }
    }

    /// As text, displayed or debugged.
    #[test]
    fn no_value_makes_another_field_or_line() {
        let mut file = tempfile::tempfile().unwrap();
        let written = Arc::new(file.try_clone().unwrap());
        let lines = fmt::layer().with_ansi(false).without_time();
        let lines = lines.with_level(false).with_target(false);
        let lines = lines.fmt_fields(Fields).with_writer(written);
        with_default(registry().with(lines), || {
            let path = "a uid=0\nERROR";
            tracing::info!(path, shown = %path, rule = ?Some(path), uid = 4242, "an\nopen");
            tracing::info!(to = Option::<&str>::None, by = "opens", "denied");
        });
        let mut written = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut written).unwrap();
        let expected = [
            r#"an\nopen path="a uid=0\nERROR" shown="a uid=0\nERROR" rule="Some(\"a uid=0\\nERROR\")" uid=4242"#,
            "denied by=opens",
        ];
        assert_eq!(written.lines().collect::<Vec<_>>(), expected);
    }
}
