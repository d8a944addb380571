//! The users who run the command.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::geteuid;
use verimount_testkit::{skip, tools};

use super::{run::binary, world::World};

/// The user and group `nobody`.
const NOBODY: &str = "65534";

/// The user who runs a command.
pub(crate) enum User {
    /// The user who runs the tests.
    Current,
    /// `nobody`, with this copy of the command.
    Nobody(PathBuf),
}

pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// Whether the tests run as root; prints a note that work is skipped if not.
pub(crate) fn root_or_skip() -> bool {
    if !is_root() {
        skip("only root can do that");
    }
    is_root()
}

impl User {
    /// An ordinary user: `nobody` if the tests run as root.
    pub(crate) fn ordinary(world: &World) -> Self {
        match is_root() {
            true => Self::Nobody(reachable_copy(&binary(), world)),
            false => Self::Current,
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

/// A program that root runs as `nobody`.
pub(crate) fn as_nobody(program: &Path) -> Command {
    let setpriv = tools::find("setpriv").expect("util-linux is part of every system");
    let mut command = Command::new(setpriv);
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]);
    command.arg(program);
    command
}

/// The program itself if everybody can run it where it is, else a copy in `world`.
pub(crate) fn reachable_copy(program: &Path, world: &World) -> PathBuf {
    let open_to_all = |path: &Path| {
        fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o005 == 0o005)
    };
    if program.ancestors().all(open_to_all) {
        return program.to_owned();
    }
    let copy = world.unlisted(program.file_name().unwrap().to_str().unwrap());
    if !copy.exists() {
        fs::copy(program, &copy).unwrap();
    }
    copy
}
