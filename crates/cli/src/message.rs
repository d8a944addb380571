use std::{
    fmt::Display,
    io::{self, Write},
};

/// Writes a line to standard error; if nobody reads it any more, that is no reason to end.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
