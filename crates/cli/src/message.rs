use std::{
    fmt::Display,
    io::{self, Write},
};

use anyhow::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use verimount_names::one_line;

/// Says why something failed: what was tried first, the deepest reason last.
pub(crate) fn say_failed(error: &Error) {
    say(format_args!("verimount: {}", reasons(error)));
}

/// An error and its causes in one line. Many errors name their cause in their own text, for those
/// who show only that: it is not said once more.
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
    text
}

/// Writes a line to standard error; if nobody reads it any more, that is no reason to end.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", one_line(&line.to_string()));
}

/// The error of arguments that are right one by one, but not together. The process ends as with any other
/// wrong usage.
pub(crate) fn wrong_usage(text: impl Display) -> Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format_args!("{text}\n")).into()
}

/// Says what is wrong with the arguments, of which nobody knows who chose them: a shell's `*` takes
/// all names as they are. Ends the process.
pub(crate) fn say_wrong_usage(mut error: clap::Error) -> ! {
    let unprintable: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => {
                Some((kind, one_line(text).to_string())).filter(|(_, printable)| printable != text)
            }
            _ => None,
        })
        .collect();
    for (kind, text) in unprintable {
        error.insert(kind, ContextValue::String(text));
        // It repeats the text.
        error.remove(ContextKind::Suggested);
    }
    error.exit()
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
