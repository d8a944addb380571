//! The protocol by which a service of `Type=notify` tells systemd its state: a datagram to the socket
//! that `NOTIFY_SOCKET` names, see sd_notify(3).

use std::{
    env,
    ffi::{OsStr, OsString},
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

impl ReadyService {
    /// Tells the service manager, if there is one. A failure is logged: what is served can be used all
    /// the same.
    pub(crate) fn announce() -> Option<Self> {
        let socket = env::var_os("NOTIFY_SOCKET")?;
        logged(Self::start(socket))
    }

    fn start(socket: OsString) -> io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        send(&socket, READY)?;
        let handle = signals.handle();
        let stopping = thread::Builder::new().spawn(move || {
            // Also returns when the handle is closed.
            let _ = signals.forever().next();
            logged(send(&socket, STOPPING));
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

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
