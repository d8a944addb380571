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
    thread::{self, JoinHandle},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::{Handle, Signals},
};

const READY: &str = "READY=1";
const STOPPING: &str = "STOPPING=1";

/// A service whose manager knows that it is ready. It learns that the service is stopping at the first
/// signal that asks for that, or when this is dropped.
pub(crate) struct ReadyService {
    signals: Handle,
    stopping: Option<JoinHandle<()>>,
}

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
        logged(self.0.and_then(ReadyService::start))
    }
}

impl ReadyService {
    fn start(manager: UnixDatagram) -> io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        manager.send(READY.as_bytes())?;
        let handle = signals.handle();
        let stopping = thread::Builder::new().spawn(move || {
            // Also returns when the handle is closed.
            let _ = signals.forever().next();
            logged(manager.send(STOPPING.as_bytes()));
        })?;
        Ok(Self {
            signals: handle,
            stopping: Some(stopping),
        })
    }
}

impl Drop for ReadyService {
    fn drop(&mut self) {
        self.signals.close();
        if let Some(stopping) = self.stopping.take() {
            let _ = stopping.join();
        }
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
