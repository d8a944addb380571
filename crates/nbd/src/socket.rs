//! Unix sockets: creating them with the right permissions from the start, and connecting without
//! blocking.

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
    thread,
    time::Duration,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, chownat, fchmod, fstat, openat},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect as connect_to,
        listen as listen_to, socket_with,
    },
};
use verimount_sys::GuardedPath;

/// The number of connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// How often it is looked whether a socket is abandoned.
const LOOKS: usize = 5;

/// The time between two of these looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Who may connect to a socket: by default only its owner, the user of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct SocketAccess {
    /// The socket's permissions, 0600 by default. Connecting requires write permission.
    pub mode: Option<u32>,
    /// The socket's group, if not the default of the system.
    pub group: Option<u32>,
}

/// Listens at `path`, replacing an abandoned socket. The helper of a server that was killed has it, too, until it finds out: so it is
/// looked at several times.
pub(crate) fn listen(path: &Path, access: SocketAccess) -> io::Result<UnixListener> {
    // A longer one cannot be told to clients.
    SocketAddrUnix::new(path)?;
    let guarded = GuardedPath::new(path)?;
    let path = &guarded.path();
    for _ in 0..LOOKS {
        match listen_at_new(path, access) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other,
        }
        if is_abandoned(path) {
            fs::remove_file(path)?;
        } else {
            thread::sleep(BETWEEN_LOOKS);
        }
    }
    listen_at_new(path, access)
}

/// Connects to the process that listens at `path`.
///
/// # Errors
/// I/O errors; [`io::ErrorKind::WouldBlock`] if the backlog is full.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = new_socket(SocketFlags::NONBLOCK)?;
    connect_to(&socket, &address)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Only the owner has access from the socket's creation on, as Linux takes the permissions of the
/// file from the descriptor. The socket gets its final permissions before anybody can connect.
fn listen_at_new(path: &Path, access: SocketAccess) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let socket = new_socket(SocketFlags::empty())?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    let opened = open_to(path, access).and_then(|()| Ok(listen_to(&socket, BACKLOG)?));
    if opened.is_err() {
        // The socket is new and has no clients yet.
        let _ = fs::remove_file(path);
    }
    opened.map(|()| socket.into())
}

/// Sets the group and permissions of a new socket.
fn open_to(path: &Path, access: SocketAccess) -> io::Result<()> {
    if access.group.is_none() && access.mode.is_none() {
        return Ok(());
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Socket {
        // Another process has replaced the socket.
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

/// Whether `path` is a socket that no server listens on, as a killed server leaves behind.
fn is_abandoned(path: &Path) -> bool {
    // Connecting to a file that is not a socket is refused, too.
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    is_socket && connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
