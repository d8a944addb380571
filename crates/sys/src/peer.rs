use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

/// The id of the process that listens on the Unix socket to which `socket` is connected, as
/// recorded by the kernel at `listen`; `None` if it has none in our PID namespace.
///
/// # Errors
/// As `getsockopt`, for any other kind of socket.
pub fn listening_process(socket: impl AsFd) -> io::Result<Option<i32>> {
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
    match result {
        0 => Ok((peer.pid > 0).then_some(peer.pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        os::unix::net::{UnixListener, UnixStream},
        process,
    };

    use super::*;

    #[test]
    fn the_kernel_knows_who_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let connected = UnixStream::connect(&path).unwrap();
        let listening = listening_process(&connected).unwrap();
        assert_eq!(listening, Some(process::id().cast_signed()));
        assert!(listening_process(File::open("/dev/null").unwrap()).is_err());
    }
}
