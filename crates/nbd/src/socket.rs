//! Unix sockets: made so that only those may connect who are to, and connected to without waiting.

use std::{
    fs::{self, Permissions},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            fs::{FileTypeExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, chownat, fchmod, fstat, openat},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen as listen_to,
        socket_with,
    },
};

/// How many may wait to be let in.
const BACKLOG: i32 = 16;

/// Who may connect to a socket: by default its owner, who is this process's user.
#[derive(Debug, Clone, Copy, Default)]
pub struct SocketAccess {
    /// The socket's permissions; those who may write may connect. 0600 if not given.
    pub mode: Option<u32>,
    /// The socket's group, if not the one that the system chooses.
    pub group: Option<u32>,
}

/// Listens at `path`, in place of a socket that nobody listens to any more.
pub(crate) fn listen(path: &Path, access: SocketAccess) -> io::Result<UnixListener> {
    match listen_at_new(path, access) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
            fs::remove_file(path)?;
            listen_at_new(path, access)
        }
        other => other,
    }
}

/// A connection to the process that listens at `path`.
///
/// # Errors
/// What the system says; [`io::ErrorKind::WouldBlock`] if others wait to be let in already.
pub(crate) fn connect_to(path: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = new_socket(SocketFlags::NONBLOCK)?;
    connect(&socket, &address)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The socket is its owner's alone from its beginning on, as Linux takes its permissions from the
/// descriptor's. It gets those that it is to have before anybody can connect.
fn listen_at_new(path: &Path, access: SocketAccess) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let socket = new_socket(SocketFlags::empty())?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    let opened = open_to(path, access).and_then(|()| Ok(listen_to(&socket, BACKLOG)?));
    if opened.is_err() {
        // It was made just now, and serves nobody.
        let _ = fs::remove_file(path);
    }
    opened.map(|()| socket.into())
}

/// Gives a new socket its group and its permissions.
fn open_to(path: &Path, access: SocketAccess) -> io::Result<()> {
    if access.group.is_none() && access.mode.is_none() {
        return Ok(());
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Socket {
        // Somebody has put another file in its place.
        return Err(Errno::STALE.into());
    }
    if let Some(group) = access.group {
        chownat(
            &file,
            "",
            None,
            Some(Gid::from_raw(group)),
            AtFlags::EMPTY_PATH,
        )?;
    }
    match access.mode {
        Some(mode) => fs::set_permissions(
            format!("/proc/self/fd/{}", file.as_raw_fd()),
            Permissions::from_mode(mode),
        ),
        None => Ok(()),
    }
}

fn new_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

/// Whether there is a socket that nobody listens to, as a server leaves that was killed.
fn is_abandoned(path: &Path) -> bool {
    // Of other files, too, the system says that they refuse the connection.
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    is_socket
        && connect_to(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
