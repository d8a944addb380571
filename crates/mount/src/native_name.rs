//! The names of native mounts, by which everybody knows them.

use std::{
    fs::{self, DirBuilder, DirEntry},
    io,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
};

use crate::{MountEntry, MountOptions, mount_table::mounts};

/// Where they are: root's.
const DIRECTORY: &str = "/run/verimount/native";

/// The longest part of a source in a name, in characters.
const MAX_SOURCE: usize = 64;

/// The name of a native mount of this process. It is removed when this is dropped and nobody's mount table shows it: a mount
/// whose process was killed is known as dead by a socket at which nobody answers.
#[derive(Debug)]
pub(crate) struct Name(PathBuf);

/// Whether the source of a mount is such a name.
pub(crate) fn is_name(source: &str) -> bool {
    Path::new(source).parent() == Some(Path::new(DIRECTORY))
}

/// Whether the process has ended that serves the mount with this name. What cannot be asked from here is not dead.
pub(crate) fn is_dead(name: &str) -> bool {
    // One that is stopped, and that many have asked, would have who asks wait.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let asked = socket.and_then(|socket| connect(socket, &SocketAddrUnix::new(name)?));
    asked == Err(Errno::CONNREFUSED)
}

/// The process that serves the mount with this name, by its number in its own PID namespace; `None` if it has ended.
pub(crate) fn process(name: &str) -> Option<i32> {
    let (process, _) = Path::new(name).file_name()?.to_str()?.split_once('-')?;
    let process = process.parse().ok()?;
    (!is_dead(name)).then_some(process)
}

impl Name {
    /// Names a mount that this process serves, and lets the name lead to what is to be mounted. Removes names that killed
    /// processes have left.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn leading_to(
        image: &Path,
        options: &MountOptions,
        process: u32,
    ) -> io::Result<Self> {
        let mut directory = DirBuilder::new();
        directory.recursive(true).mode(0o755).create(DIRECTORY)?;
        remove_left();
        let source = Path::new(&options.source_name).file_name();
        let source = source.unwrap_or_default().to_string_lossy();
        let source: String = source.chars().take(MAX_SOURCE).collect();
        let path = Path::new(DIRECTORY).join(format!("{process}-{source}"));
        symlink(image, &path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Lets the name lead to a socket from now on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn listen(&self) -> io::Result<UnixListener> {
        fs::remove_file(&self.0)?;
        UnixListener::bind(&self.0)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // In doubt somebody sees it.
        if mounts().is_ok_and(|mounts| !is_among(&mounts, &self.0)) {
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// Removes names of mounts that are gone, whose processes were killed.
pub(crate) fn remove_left() {
    let names = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    // A link is of a mount that is being made.
    let is_socket = |name: &DirEntry| name.file_type().is_ok_and(|kind| kind.is_socket());
    let mut names: Vec<_> = names.filter(is_socket).map(|name| name.path()).collect();
    // Looked at after the names: what has a socket has been mounted.
    let Ok(mounts) = mounts() else {
        return;
    };
    names.retain(|name| !is_among(&mounts, name));
    for name in names {
        if name.to_str().is_some_and(is_dead) {
            let _ = fs::remove_file(name);
        }
    }
}

fn is_among(mounts: &[MountEntry], name: &Path) -> bool {
    mounts.iter().any(|mount| Path::new(&mount.source) == name)
}
