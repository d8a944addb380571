//! Running programs.

use std::{
    env,
    ffi::OsString,
    io, iter,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::interrupt;

/// Runs `command` with its output shown.
///
/// # Errors
/// A command that cannot start or that does not exit with 0, named by its command line.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status();
    check(command, status)
}

/// The standard output of `command`, without the whitespace at its end.
///
/// # Errors
/// As for [`run`]; output that is not UTF-8.
pub fn stdout(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let (status, bytes) = match output {
        Ok(output) => (Ok(output.status), output.stdout),
        Err(error) => (Err(error), Vec::new()),
    };
    check(command, status)?;
    let text = String::from_utf8(bytes).with_context(|| describe(command))?;
    Ok(text.trim_end().to_owned())
}

/// Converts the exit status of `command` into a result.
///
/// # Errors
/// As for [`run`].
pub fn check(command: &Command, status: io::Result<ExitStatus>) -> Result<()> {
    interrupt::check()?;
    let status = status.with_context(|| format!("cannot run `{}`", describe(command)))?;
    ensure!(status.success(), "`{}`: {status}", describe(command));
    Ok(())
}

/// `PATH` with this folder before all others.
///
/// # Errors
/// The folder's name has a character that separates folders.
pub fn path_with(folder: &Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = iter::once(folder.to_owned()).chain(env::split_paths(&path));
    Ok(env::join_paths(folders)?)
}

/// The command line, for messages.
pub fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name();
    program
        .into_iter()
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
