use std::{ffi::OsString, process::ExitCode};

use crate::mount_helper::Caller;

/// What the program was started as, which decides its arguments and exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    /// A command. Exit codes: 1 for bad data and failed work, 2 for wrong usage.
    Command,
    /// The helper of mount(8). Exit codes: 1 for wrong usage, 32 for failed work.
    MountHelper(Caller),
}

impl CalledAs {
    pub(crate) fn of(arguments: &[OsString]) -> Self {
        Caller::of(arguments).map_or(Self::Command, Self::MountHelper)
    }

    pub(crate) fn wrong_usage(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Command => 2,
            Self::MountHelper(_) => 1,
        })
    }

    pub(crate) fn failure(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Command => 1,
            Self::MountHelper(_) => 32,
        })
    }
}
