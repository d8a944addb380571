use std::{ffi::OsString, process::ExitCode};

use crate::mount_helper::is_helper_call;

/// What the program was started as, which decides its arguments and exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    /// A command. Exit codes: 1 for bad data and failed work, 2 for wrong usage.
    Command,
    /// The helper of mount(8). Exit codes: 1 for wrong usage, 32 for failed work.
    MountHelper,
}

impl CalledAs {
    pub(crate) fn of(arguments: &[OsString]) -> Self {
        match is_helper_call(arguments) {
            true => Self::MountHelper,
            false => Self::Command,
        }
    }

    pub(crate) fn wrong_usage(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Command => 2,
            Self::MountHelper => 1,
        })
    }

    pub(crate) fn failure(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Command => 1,
            Self::MountHelper => 32,
        })
    }
}
