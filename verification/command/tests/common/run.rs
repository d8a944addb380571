//! Runs the command.

use crate::prelude::*;

pub(crate) use verimount_command_tests::{BINARY, binary};

/// Arguments for a command: words, and anything that paths and texts can be put into.
#[macro_export]
macro_rules! args {
    ($($argument:expr),* ; $more:expr) => {{
        let mut all = $crate::args![$($argument),*];
        all.extend($more.into_iter().map(std::ffi::OsString::from));
        all
    }};
    ($words:literal $(, $argument:expr)* $(,)?) => {{
        let words = $words.split(' ').map(std::ffi::OsString::from);
        let others: Vec<std::ffi::OsString> = vec![$($argument.into()),*];
        words.chain(others).collect::<Vec<_>>()
    }};
    ($($argument:expr),* $(,)?) => {
        vec![$(std::ffi::OsString::from($argument)),*]
    };
}

/// Runs `verimount` with these arguments.
pub(crate) fn verimount(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ended {
    verimount_as(&User::Current, arguments)
}

/// Runs `verimount` as this user.
pub(crate) fn verimount_as(
    user: &User,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Ended {
    let mut command = user.command();
    command.args(arguments);
    finish(command)
}
