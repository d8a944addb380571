//! How a command ends, and which exit code tells it.

use std::{
    error::Error as StdError,
    io::{self, StdoutLock, stdout},
    process::ExitCode,
};

use anyhow::Result;
use serde::Serialize;
use verimount::{Error, ErrorKind, options::SealError};
use verimount_host::volume::{VolumeError, kind_of};

use crate::{
    interrupt::{Interrupted, received_signal},
    json::write_report,
    message::Explained,
    mount_helper::Caller,
};

/// The exit codes, and what they mean.
pub(crate) const EXIT_CODES: [(&str, &str); 5] = [
    ("0", "All is well."),
    (
        "1",
        "The data is bad: damaged, forged, not the version required, or not of the format required.",
    ),
    ("2", "It was used wrongly."),
    (
        "3",
        "The work could not be done, which says nothing of the data; standard error tells why.",
    ),
    (
        "130, 143, 129",
        "It was interrupted by SIGINT, SIGTERM or SIGHUP.",
    ),
];

/// [`EXIT_CODES`] as a paragraph of the help.
pub(crate) fn exit_codes_help() -> String {
    let lines = EXIT_CODES.map(|(code, meaning)| format!("  {code:<13}  {meaning}"));
    format!("Exit codes:\n{}", lines.join("\n"))
}

/// The exit code of mount(8) for a mount that failed, for whatever reason.
const MOUNT_FAILED: u8 = 32;

/// The exit code of mount(8) for wrong usage.
const MOUNT_USAGE: u8 = 1;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything is good.
    Good,
    /// The data is bad, which has been reported.
    Bad,
    /// The arguments make no sense.
    WrongUsage,
    /// The work could not be done.
    Failed,
    /// A signal with this number has ended it.
    Interrupted(u8),
}

impl Outcome {
    /// What an error means.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if let Some(usage) = error.downcast_ref::<clap::Error>() {
            // Help and the version are printed as if they were errors.
            return if usage.use_stderr() {
                Self::WrongUsage
            } else {
                Self::Good
            };
        }
        match error.chain().find_map(kind) {
            Some(kind) if kind.is_about_data() => Self::Bad,
            Some(ErrorKind::Cancelled) => received_signal().map_or(Self::Failed, Self::Interrupted),
            _ => Self::Failed,
        }
    }

    /// What the data is.
    pub(crate) fn of_data(is_good: bool) -> Self {
        if is_good { Self::Good } else { Self::Bad }
    }

    /// The outcome after writing a report to standard output, as JSON if that is given, or else as `print` does.
    pub(crate) fn report(
        self,
        json: Option<impl Serialize>,
        print: impl FnOnce(&mut StdoutLock<'_>) -> io::Result<()>,
    ) -> Result<Self> {
        let mut out = stdout().lock();
        self.reported(match json {
            Some(report) => write_report(&mut out, report),
            None => print(&mut out),
        })
    }

    /// The outcome after writing the report. If the reader closed the pipe early, the exit code
    /// still tells the outcome.
    pub(crate) fn reported(self, written: io::Result<()>) -> Result<Self> {
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(self),
        }
    }

    /// The exit code that tells this to whoever has called the program, or mount(8), which has called the helper.
    pub(crate) fn code(self, helper: Option<Caller>) -> ExitCode {
        ExitCode::from(match (helper, self) {
            (_, Self::Good) => 0,
            (None, Self::Bad) => 1,
            (None, Self::WrongUsage) => 2,
            (None, Self::Failed) => 3,
            // As shells show a process that a signal has ended.
            (None, Self::Interrupted(signal)) => 128 + signal,
            (Some(_), Self::WrongUsage) => MOUNT_USAGE,
            (Some(_), _) => MOUNT_FAILED,
        })
    }
}

/// What an error of the library, or one that stands for it, means.
fn kind(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    None.or_else(|| Some(error.downcast_ref::<Error>()?.kind()))
        .or_else(|| Some(error.downcast_ref::<Explained>()?.kind))
        .or_else(|| Some(kind_of(error.downcast_ref::<VolumeError>()?)))
        .or_else(|| Some(error.downcast_ref::<SealError>()?.into()))
        .or_else(|| error.is::<Interrupted>().then_some(ErrorKind::Cancelled))
}
