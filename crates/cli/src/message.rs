use std::{
    fmt::Display,
    io::{self, Write},
};

use anyhow::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use verimount_host::one_line;

use crate::{advice::advice, shown_url::without_secrets, unknown_option::suggest_commands};

/// Prints why something failed: the outermost error first, its root cause last.
pub(crate) fn say_failed(error: &Error) {
    say(format_args!("verimount: {}", reasons(error)));
}

/// An error and its causes in one line, with advice. A cause that an error already includes in its
/// own text is not repeated.
pub(crate) fn reasons(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    if let Some(advice) = error.downcast_ref().and_then(advice) {
        text.push_str(&advice);
    }
    text
}

/// An error of the library in words that suit the command better than its own.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Explained {
    text: String,
    /// What the error means.
    pub(crate) kind: verimount::ErrorKind,
}

impl Explained {
    /// `error`, in these words.
    pub(crate) fn new(error: &verimount::Error, text: impl Display) -> Self {
        Self {
            text: text.to_string(),
            kind: error.kind(),
        }
    }
}

/// Writes a line to standard error. Failures to write are ignored.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", one_line(&line.to_string()));
}

/// `1 range`, `2 ranges`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{ending}")
}

/// An error for arguments that are individually valid but contradict each other. The process ends
/// as with any other wrong usage.
pub(crate) fn wrong_usage(text: impl Display) -> Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format_args!("{text}\n")).into()
}

/// Prints what is wrong with the arguments, or the help that was asked for. Arguments may be hostile file
/// names, for example from a shell's `*`, so unprintable characters are escaped.
pub(crate) fn say_wrong_usage(mut error: clap::Error) {
    suggest_commands(&mut error);
    let unprintable: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => {
                let shown = without_secrets(text);
                let shown = one_line(shown.as_deref().unwrap_or(text)).to_string();
                Some((kind, shown)).filter(|(_, shown)| shown != text)
            }
            _ => None,
        })
        .collect();
    for (kind, text) in unprintable {
        error.insert(kind, ContextValue::String(text));
        // The suggestion repeats the text.
        error.remove(ContextKind::Suggested);
    }
    // Nobody could be told of a failure.
    let _ = error.print();
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn no_reason_is_said_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("writing: {0}")]
        struct NamesItsCause(#[source] io::Error);

        let full = || io::Error::other("it is full");
        let named = Error::from(NamesItsCause(full()));
        assert_eq!(reasons(&named), "writing: it is full");
        assert_eq!(reasons(&named.context("file")), "file: writing: it is full");
        assert_eq!(
            reasons(&Error::from(full()).context("file")),
            "file: it is full"
        );
        assert_eq!(reasons(&anyhow!("one")), "one");
    }
}
