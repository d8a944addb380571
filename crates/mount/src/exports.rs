//! A registry of exports, so that they can be found: a symbolic link to each socket, named by the id of
//! the serving process, in `/run/verimount` or `$XDG_RUNTIME_DIR/verimount`.
//!
//! A link only says where to query. If no process answers at the socket, the process was killed.

use std::{
    env,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, symlink},
    path::{Path, PathBuf, absolute},
    process,
    time::Instant,
};

use rustix::process::geteuid;
use verimount_helper::remove_file;
use verimount_sys::GuardedPath;

use crate::in_time;

/// The name of the registry in a runtime directory.
const DIRECTORY: &str = "verimount";

/// The most links that are read from one directory: its owner can create any number.
pub(crate) const MAX_LINKS: usize = 1024;

/// The most users whose exports root lists.
const MAX_USERS: usize = 1024;

/// An entry of this process in the registry. It is removed when this is dropped.
#[derive(Debug)]
pub struct Registration(PathBuf);

impl Registration {
    /// Registers this process's export at `socket`; `None` if there is no runtime directory.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(socket: &Path) -> io::Result<Option<Self>> {
        let socket = absolute(socket)?;
        Self::made(process::id().to_string(), |link| symlink(socket, link))
    }

    /// Has `make` make an entry with this name in the registry of this process's user, which is created if it does not exist;
    /// `None` if there is no runtime directory.
    pub(crate) fn made(
        name: String,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<Option<Self>> {
        let Some(directory) = own_directory() else {
            return Ok(None);
        };
        let guarded = GuardedPath::new(&directory)?;
        match DirBuilder::new().mode(0o755).create(guarded.path()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        Self::at(directory.join(name), make).map(Some)
    }

    fn at(path: PathBuf, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<Self> {
        let guarded = GuardedPath::new(&path)?;
        // A killed process with the same id may have left one.
        let _ = fs::remove_file(guarded.path());
        make(&guarded.path())?;
        Ok(Self(path))
    }

    /// Where an export of this process is registered; `None` if there is no runtime directory.
    pub fn link() -> Option<PathBuf> {
        Some(own_directory()?.join(process::id().to_string()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = remove_file(&self.0);
    }
}

/// A registered socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredExport {
    /// The socket.
    pub socket: PathBuf,
    /// Who registered it. It can be anybody's socket, so ask only a process of this user there.
    pub user: u32,
}

/// The sockets that this user's processes have registered, or for root any user's, as far as they are found until `end`. Removes
/// this user's links of processes that no longer run, unless their socket is still there.
pub fn registered_exports(end: Instant) -> Vec<RegisteredExport> {
    let found = in_time(registries(), end, Registry::exports);
    found.into_iter().flatten().flatten().collect()
}

/// Where a user's processes register, and may have put anything.
struct Registry {
    user: u32,
    directory: PathBuf,
    is_own: bool,
}

impl Registry {
    fn exports(self) -> Vec<RegisteredExport> {
        let user = self.user;
        let mut exports = Vec::new();
        let mut dead = Vec::new();
        for (link, socket) in links(&self.directory) {
            let export = RegisteredExport { socket, user };
            if self.is_own && !is_alive(&link) {
                dead.push((link, export));
            } else if self.is_own || export.is_socket_of_its_user() {
                exports.push(export);
            }
        }
        for (link, left) in dead {
            if left.is_socket_of_its_user() && !exports.contains(&left) {
                exports.push(left);
            } else {
                // Another process removes it the next time if this fails.
                drop(remove_file(&link));
            }
        }
        exports
    }
}

impl RegisteredExport {
    /// Whether its user has made a socket there.
    fn is_socket_of_its_user(&self) -> bool {
        let found = fs::symlink_metadata(&self.socket);
        found.is_ok_and(|found| found.file_type().is_socket() && found.uid() == self.user)
    }
}

/// Whether the process with the id that is the link's name runs.
fn is_alive(link: &Path) -> bool {
    link.file_name()
        .is_some_and(|number| Path::new("/proc").join(number).exists())
}

/// The links in a directory, with their targets.
fn links(directory: &Path) -> impl Iterator<Item = (PathBuf, PathBuf)> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .take(MAX_LINKS)
        .filter_map(|entry| Some((entry.path(), fs::read_link(entry.path()).ok()?)))
}

/// The registry of this process's user.
pub(crate) fn own_directory() -> Option<PathBuf> {
    if geteuid().is_root() {
        return Some(Path::new("/run").join(DIRECTORY));
    }
    let directory = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    // After `su` the variable can still name another user's directory.
    let is_own = fs::metadata(&directory).is_ok_and(|found| found.uid() == geteuid().as_raw());
    is_own.then(|| directory.join(DIRECTORY))
}

/// The registries of this user and, for root, of others. What is in them is not looked at.
fn registries() -> Vec<Registry> {
    let own = own_directory().map(|directory| Registry {
        user: geteuid().as_raw(),
        directory,
        is_own: true,
    });
    let of_users = geteuid().is_root().then(|| fs::read_dir("/run/user").ok());
    let names = of_users.flatten().into_iter().flatten().flatten();
    let others = names.take(MAX_USERS).filter_map(|name| {
        let user = name.file_name().to_str()?.parse().ok()?;
        let directory = name.path().join(DIRECTORY);
        Some(Registry {
            user,
            directory,
            is_own: false,
        })
    });
    own.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn nothing_is_registered_where_others_lead() {
        let folder = tempfile::tempdir().unwrap();
        let [real, theirs] = ["real", "theirs"].map(|name| folder.path().join(name));
        for path in [&real, &theirs] {
            fs::create_dir(path).unwrap();
        }
        symlink(&real, theirs.join("link")).unwrap();
        let link = theirs.join("link/1");
        let register = |mode| {
            fs::set_permissions(&theirs, fs::Permissions::from_mode(mode)).unwrap();
            Registration::at(link.clone(), |link| symlink("/socket", link))
        };
        let refused = register(0o777).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(real.join("1").symlink_metadata().is_err());
        let registered = register(0o755).unwrap();
        assert_eq!(fs::read_link(real.join("1")).unwrap(), Path::new("/socket"));
        drop(registered);
        assert!(real.join("1").symlink_metadata().is_err());
    }
}
