use std::{
    io,
    num::NonZeroUsize,
    os::unix::net::UnixListener,
    path::{Path, PathBuf, absolute},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use rustix::net::shutdown;
use verimount_helper::remove_file;

use crate::{
    Export, Limits, SocketAccess,
    clients::{Client, Clients},
    connection::Connection,
    handshake::{self, Chosen},
    memory::Memory,
    own_option, socket,
    until::Until,
};

/// How long to wait after `accept` fails, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// An NBD server on a Unix socket.
pub struct Server {
    listener: UnixListener,
    /// The socket's file, if it is removed at the end.
    own: Option<PathBuf>,
    has_stopped: AtomicBool,
    /// What clients may use: by default the limits [of this system](Limits::of_system).
    pub limits: Limits,
    clients: Clients,
}

impl Server {
    /// Creates the socket with these permissions, replacing an abandoned one.
    ///
    /// # Errors
    /// I/O errors.
    pub fn bind(path: &Path, access: SocketAccess) -> io::Result<Self> {
        let path = absolute(path)?;
        let listener = socket::listen(&path, access)?;
        let mut server = Self::listening(listener);
        server.own = Some(path);
        Ok(server)
    }

    /// A server on a socket that somebody else has made, and will remove.
    pub fn listening(listener: UnixListener) -> Self {
        Self {
            listener,
            own: None,
            has_stopped: AtomicBool::new(false),
            limits: Limits::of_system(),
            clients: Clients::default(),
        }
    }

    /// Serves `export` to all clients, each with `threads` threads, until [`Self::stop`]. Pending
    /// requests are then still answered, if the clients take the answers within the grace period.
    pub fn serve(&self, export: &impl Export, threads: NonZeroUsize) {
        let memory = Memory::new(self.limits.memory, self.limits.stall);
        thread::scope(|scope| {
            while let Some(client) = self.next_client() {
                let (served, memory) = (client.clone(), &memory);
                let serve = move || {
                    if let Err(error) = self.serve_client(&served, export, memory, threads) {
                        tracing::warn!(%error, "the connection to a client failed");
                    }
                    self.clients.remove(&served);
                };
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, serve) {
                    tracing::warn!(%error, "cannot start a thread for a client");
                    self.clients.remove(&client);
                }
            }
            self.clients.dismiss(self.limits.grace);
        });
    }

    fn serve_client(
        &self,
        client: &Arc<Client>,
        export: &impl Export,
        memory: &Memory,
        threads: NonZeroUsize,
    ) -> io::Result<()> {
        let mut stream = Until::new(client.stream(), self.limits.handshake);
        let grant = |purpose| self.clients.grant(client, purpose, &self.limits);
        let chosen = handshake::agree(&mut stream, export, &grant)?;
        stream.lift()?;
        match chosen {
            Some(Chosen::Use) => Connection::new(client, export, memory).serve(threads),
            Some(Chosen::Talk(option, talk)) => {
                own_option::serve(client.stream(), option, talk, self.limits.stall)
            }
            None => Ok(()),
        }
    }

    /// Stops accepting clients and requests.
    pub fn stop(&self) {
        self.has_stopped.store(true, Relaxed);
        let _ = shutdown(&self.listener, rustix::net::Shutdown::Both);
    }

    /// The next client, already counted as connected; `None` once stopped.
    fn next_client(&self) -> Option<Arc<Client>> {
        loop {
            let accepted = self.listener.accept();
            if self.has_stopped.load(Relaxed) {
                return None;
            }
            match accepted {
                Ok((stream, _)) => match self.clients.admit(stream, &self.limits) {
                    Some(client) => return Some(client),
                    None => tracing::warn!("a client is rejected: too many are connected"),
                },
                Err(error) => {
                    tracing::warn!(%error, "a client cannot connect");
                    thread::sleep(PAUSE);
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(path) = &self.own {
            let _ = remove_file(path);
        }
    }
}
