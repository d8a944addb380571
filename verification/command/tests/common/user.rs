//! The users who run the command.

use crate::prelude::*;

/// The user who runs a command.
pub(crate) enum User {
    /// The user who runs the tests.
    Current,
    /// `nobody`, with this copy of the command.
    Nobody(PathBuf),
}

impl User {
    /// An ordinary user: `nobody` if the tests run as root.
    pub(crate) fn ordinary(world: &World) -> Self {
        if is_root() {
            Self::Nobody(reachable_copy(&binary(), world))
        } else {
            Self::Current
        }
    }

    /// `verimount`, without arguments yet.
    pub(crate) fn command(&self) -> Command {
        let mut command = match self {
            Self::Current => Command::new(binary()),
            Self::Nobody(copy) => self.program(copy),
        };
        // Nothing is kept unless a test wants that: there can be no such directory.
        command.env("XDG_CACHE_HOME", "/dev/null/cache");
        // What is missing in the sandbox is found.
        command.env("VERIMOUNT_UNKNOWN_CALLS", "kill");
        command
    }

    /// Another program, without arguments yet.
    pub(crate) fn program(&self, program: &Path) -> Command {
        match self {
            Self::Current => Command::new(program),
            Self::Nobody(_) => as_nobody(program),
        }
    }

    /// Makes the user the owner of a file or directory.
    pub(crate) fn own(&self, path: &Path) {
        if matches!(self, Self::Nobody(_)) {
            let id = NOBODY.parse().ok();
            std::os::unix::fs::chown(path, id, id).unwrap();
        }
    }
}
