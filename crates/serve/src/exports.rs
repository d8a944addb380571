//! Where the sockets of exports are noted, so that they can be found: each as a symbolic link to the
//! socket, named by the number of the process, in `/run/verimount` or `$XDG_RUNTIME_DIR/verimount`.
//!
//! A link says nothing but where to ask. If nobody answers there, its process was killed.

use std::{
    env,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, symlink},
    path::{Path, PathBuf},
    process,
};

use rustix::process::geteuid;

/// The name of our directory in a runtime directory.
const DIRECTORY: &str = "verimount";

/// The most links that are looked at in one directory: its owner can make any number.
const MAX_LINKS: usize = 1024;

/// The most users of whom root looks at the exports.
const MAX_USERS: usize = 1024;

/// A note of where this process serves an export, for as long as this lives.
#[derive(Debug)]
pub struct Registration(PathBuf);

impl Registration {
    /// Notes that this process serves an export at `socket`; `None` where there is no runtime directory.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(socket: &Path) -> io::Result<Option<Self>> {
        let Some(directory) = own_directory() else {
            return Ok(None);
        };
        match DirBuilder::new().mode(0o755).create(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        let link = directory.join(process::id().to_string());
        // One that a killed process of the same number has left.
        let _ = fs::remove_file(&link);
        symlink(std::path::absolute(socket)?, &link)?;
        Ok(Some(Self(link)))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The sockets that processes of this user, or for root of any user, have noted. Those of processes that
/// were killed are among them; our own of those are forgotten.
pub fn registered_exports() -> Vec<PathBuf> {
    let own = own_directory().into_iter().flat_map(|directory| {
        links(&directory)
            .filter(|(link, _)| is_alive(link) || fs::remove_file(link).is_err())
            .map(|(_, socket)| socket)
            .collect::<Vec<_>>()
    });
    let mut sockets: Vec<PathBuf> = own.collect();
    for directory in directories_of_users() {
        sockets.extend(links(&directory).map(|(_, socket)| socket));
    }
    sockets
}

/// Whether there is a process of the number that a link is named by.
fn is_alive(link: &Path) -> bool {
    link.file_name()
        .is_some_and(|number| Path::new("/proc").join(number).exists())
}

/// The links in a directory, with what they lead to.
fn links(directory: &Path) -> impl Iterator<Item = (PathBuf, PathBuf)> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .take(MAX_LINKS)
        .filter_map(|entry| Some((entry.path(), fs::read_link(entry.path()).ok()?)))
}

/// Where this process's user notes exports.
fn own_directory() -> Option<PathBuf> {
    if geteuid().is_root() {
        return Some(Path::new("/run").join(DIRECTORY));
    }
    let directory = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    // A user who has become another one by `su` has the variable, but not the right.
    let is_own = fs::metadata(&directory).is_ok_and(|found| found.uid() == geteuid().as_raw());
    is_own.then(|| directory.join(DIRECTORY))
}

/// Where other users note exports, if this process may see them all.
fn directories_of_users() -> Vec<PathBuf> {
    if !geteuid().is_root() {
        return Vec::new();
    }
    let users = fs::read_dir("/run/user").into_iter().flatten().flatten();
    let users = users.take(MAX_USERS);
    users.map(|user| user.path().join(DIRECTORY)).collect()
}
