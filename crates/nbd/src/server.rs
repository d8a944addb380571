use std::{
    fs, io,
    num::NonZeroUsize,
    os::unix::{
        fs::FileTypeExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf, absolute},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use rustix::{
    fs::{Mode, fchmod},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, shutdown, socket_with,
    },
};

use crate::{
    Export, Limits,
    clients::{Client, Clients},
    connection::Connection,
    memory::Memory,
};

/// How many may wait to be let in.
const BACKLOG: i32 = 16;

/// How long to wait when the system lets nobody in, for want of descriptors, say.
const PAUSE: Duration = Duration::from_millis(100);

/// A Unix socket that NBD clients connect to, which nobody but its owner may.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    has_stopped: AtomicBool,
    limits: Limits,
    clients: Clients,
}

impl Server {
    /// Makes the socket, in place of one that nobody listens to any more.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let path = absolute(path)?;
        let listener = match new_socket(&path) {
            Err(Errno::ADDRINUSE) if is_abandoned(&path) => {
                fs::remove_file(&path)?;
                new_socket(&path)
            }
            other => other,
        };
        Ok(Self {
            listener: listener?,
            path,
            has_stopped: AtomicBool::new(false),
            limits: Limits::default(),
            clients: Clients::default(),
        })
    }

    /// The same with other limits.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Serves `export` to all clients, each from `threads` threads, until [`Self::stop`]; then what
    /// has been asked for is still answered, as far as clients take it soon.
    pub fn serve(&self, export: &impl Export, threads: NonZeroUsize) {
        let memory = Memory::new(self.limits.memory, self.limits.stall);
        thread::scope(|scope| {
            while let Some(client) = self.next_client() {
                let (served, memory) = (client.clone(), &memory);
                let serve = move || {
                    if let Err(error) = self.serve_client(&served, export, memory, threads) {
                        tracing::warn!(%error, "the connection to a client ended");
                    }
                    self.clients.remove(&served);
                };
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, serve) {
                    tracing::warn!(%error, "a client cannot be served");
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
        match Connection::agree(client, export, memory, self.limits.handshake)? {
            Some(connection) => connection.serve(threads),
            None => Ok(()),
        }
    }

    /// Lets nobody in any more, and takes no more requests.
    pub fn stop(&self) {
        self.has_stopped.store(true, Relaxed);
        let _ = shutdown(&self.listener, rustix::net::Shutdown::Both);
    }

    /// The next client, which counts as connected; `None` when there are to be no more.
    fn next_client(&self) -> Option<Arc<Client>> {
        loop {
            let accepted = self.listener.accept();
            if self.has_stopped.load(Relaxed) {
                return None;
            }
            match accepted {
                Ok((stream, _)) => match self.clients.admit(stream, &self.limits) {
                    Some(client) => return Some(client),
                    None => tracing::warn!("a client is turned away: there are too many"),
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
        let _ = fs::remove_file(&self.path);
    }
}

/// A socket that only its owner may connect to, from its beginning on: Linux takes its permissions
/// from the descriptor's.
fn new_socket(path: &Path) -> Result<UnixListener, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Whether there is a socket that nobody listens to, as a server leaves that was killed.
fn is_abandoned(path: &Path) -> bool {
    // Of other files, too, the system says that they refuse the connection.
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
