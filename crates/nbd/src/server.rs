use std::{
    fs, io,
    net::Shutdown,
    num::NonZeroUsize,
    os::unix::{
        fs::FileTypeExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf, absolute},
    sync::{
        Arc, Mutex, PoisonError,
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

use crate::{Export, connection};

/// How many clients may be connected at once: more than any use has, and few enough that each may
/// take its threads' memory.
const MAX_CLIENTS: usize = 32;

/// How many may wait to be let in.
const BACKLOG: i32 = 16;

/// How long to wait when the system lets nobody in, for want of descriptors, say.
const PAUSE: Duration = Duration::from_millis(100);

/// A Unix socket that NBD clients connect to, which nobody but its owner may.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    has_stopped: AtomicBool,
    clients: Mutex<Vec<Arc<UnixStream>>>,
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
            clients: Mutex::default(),
        })
    }

    /// Serves `export` to all clients, each from `threads` threads, until [`Self::stop`]; then what
    /// has been asked for is still answered.
    pub fn serve(&self, export: &impl Export, threads: NonZeroUsize) {
        thread::scope(|scope| {
            while let Some(client) = self.next_client() {
                let serve = move || {
                    if let Err(error) = connection::serve(&client, export, threads) {
                        tracing::warn!(%error, "the connection to a client ended");
                    }
                    self.clients().retain(|other| !Arc::ptr_eq(other, &client));
                };
                // Without a thread, it is gone.
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, serve) {
                    tracing::warn!(%error, "a client cannot be served");
                }
            }
            for client in &*self.clients() {
                let _ = client.shutdown(Shutdown::Read);
            }
        });
    }

    /// Lets nobody in any more, and takes no more requests.
    pub fn stop(&self) {
        self.has_stopped.store(true, Relaxed);
        let _ = shutdown(&self.listener, rustix::net::Shutdown::Both);
    }

    /// The next client, which counts as connected; `None` when there are to be no more.
    fn next_client(&self) -> Option<Arc<UnixStream>> {
        loop {
            let accepted = self.listener.accept();
            if self.has_stopped.load(Relaxed) {
                return None;
            }
            match accepted {
                Ok((client, _)) => {
                    let mut clients = self.clients();
                    if clients.len() < MAX_CLIENTS {
                        let client = Arc::new(client);
                        clients.push(client.clone());
                        return Some(client);
                    }
                    tracing::warn!("a client is turned away: there are too many");
                }
                Err(error) => {
                    tracing::warn!(%error, "a client cannot connect");
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    // A panic cannot leave it in a state that the type does not allow.
    fn clients(&self) -> std::sync::MutexGuard<'_, Vec<Arc<UnixStream>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
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
