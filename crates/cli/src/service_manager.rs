//! The protocol by which a service of `Type=notify` tells systemd its state: a datagram to the socket
//! that `NOTIFY_SOCKET` names, see sd_notify(3).

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

const READY: &str = "READY=1";
const STOPPING: &str = "STOPPING=1";

/// A service whose manager knows that it is ready. It learns that the service is stopping when this is dropped.
pub(crate) struct ReadyService(UnixDatagram);

/// The service manager that has started this process, or why it cannot be reached.
pub(crate) struct ServiceManager(io::Result<UnixDatagram>);

impl ServiceManager {
    /// Connects to it, if there is one, as long as this process may.
    pub(crate) fn connect() -> Option<Self> {
        let socket = env::var_os("NOTIFY_SOCKET")?;
        Some(Self(connected(&socket)))
    }

    /// Tells it that what is served can be used. A failure is logged: it can be used all the same.
    pub(crate) fn announce(self) -> Option<ReadyService> {
        let sent = self.0.and_then(|manager| {
            manager.send(READY.as_bytes())?;
            Ok(ReadyService(manager))
        });
        logged(sent)
    }
}

impl Drop for ReadyService {
    fn drop(&mut self) {
        logged(self.0.send(STOPPING.as_bytes()));
    }
}

fn logged<T>(result: io::Result<T>) -> Option<T> {
    let log = |error: &io::Error| tracing::warn!(%error, "the service manager cannot be notified");
    result.inspect_err(log).ok()
}

fn connected(socket: &OsStr) -> io::Result<UnixDatagram> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let manager = UnixDatagram::unbound()?;
    manager.connect_addr(&address)?;
    Ok(manager)
}
