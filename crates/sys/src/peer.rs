use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

use crate::checked::checked;

/// The process that listens on a Unix socket, as recorded by the kernel at `listen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// Its id; `None` if it has none in our PID namespace.
    pub process: Option<i32>,
    /// Its effective user id then.
    pub user: u32,
}

/// Who listens on the Unix socket to which `socket` is connected.
///
/// # Errors
/// As `getsockopt`, for any other kind of socket.
pub fn listener(socket: impl AsFd) -> io::Result<Listener> {
    let peer = peer(socket)?;
    Ok(Listener {
        process: (peer.pid > 0).then_some(peer.pid),
        user: peer.uid,
    })
}

/// The effective user id with which a process connected to the Unix socket that accepted `socket`.
///
/// # Errors
/// As `getsockopt`, for any other kind of socket.
pub fn connecting_user(socket: impl AsFd) -> io::Result<u32> {
    Ok(peer(socket)?.uid)
}

/// The other end's process, as recorded by the kernel when it listened or connected.
fn peer(socket: impl AsFd) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `peer`, and their number to `len`;
    // both live until the call returns, and it keeps neither pointer. All bit patterns are valid in
    // `peer`. The descriptor is borrowed, so it stays open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            ptr::from_mut(&mut peer).cast(),
            &raw mut len,
        )
    };
    checked(result).map(|_| peer)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::{
            fs::MetadataExt,
            net::{UnixListener, UnixStream},
        },
        process,
    };

    use super::*;

    #[test]
    fn the_kernel_knows_who_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listening = UnixListener::bind(&path).unwrap();
        let connected = UnixStream::connect(&path).unwrap();
        let found = listener(&connected).unwrap();
        assert_eq!(found.process, Some(process::id().cast_signed()));
        assert_eq!(found.user, fs::metadata(&path).unwrap().uid());
        let (accepted, _) = listening.accept().unwrap();
        assert_eq!(connecting_user(accepted).unwrap(), found.user);
        assert!(listener(File::open("/dev/null").unwrap()).is_err());
    }
}
