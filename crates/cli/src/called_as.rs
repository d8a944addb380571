use std::ffi::OsString;

use crate::mount_helper::Caller;

/// What the program was started as, which decides its arguments and exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    /// A command.
    Command,
    /// The helper of mount(8).
    MountHelper(Caller),
}

impl CalledAs {
    pub(crate) fn of(arguments: &[OsString]) -> Self {
        Caller::of(arguments).map_or(Self::Command, Self::MountHelper)
    }
}
