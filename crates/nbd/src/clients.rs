//! The connected clients, and disconnecting those that exceed the limits.

use std::{
    io,
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::Limits;

/// A connected client.
pub(crate) struct Client {
    stream: UnixStream,
    connected: Instant,
    /// When it was last active, in microseconds since it connected.
    active: AtomicU64,
}

impl Client {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            connected: Instant::now(),
            active: AtomicU64::new(0),
        }
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Records that the client has sent a request or taken an answer.
    pub(crate) fn note_activity(&self) {
        let now = self.connected.elapsed().as_micros();
        self.active.store(now as u64, Relaxed);
    }

    /// How long the client has been idle.
    fn idle(&self) -> Duration {
        let active = Duration::from_micros(self.active.load(Relaxed));
        self.connected.elapsed().saturating_sub(active)
    }

    /// Closes the connection, even during a read or write.
    pub(crate) fn disconnect(&self, reason: &str) {
        tracing::warn!(reason, "disconnecting a client");
        // The client may have disconnected by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The set of connected clients.
#[derive(Default)]
pub(crate) struct Clients {
    connected: Mutex<Vec<Arc<Client>>>,
    left: Condvar,
}

impl Clients {
    /// Admits a new client. If all places are taken, the client that has been idle for longest is
    /// disconnected, if it exceeds the idle limit; otherwise `None`.
    pub(crate) fn admit(&self, stream: UnixStream, limits: &Limits) -> Option<Arc<Client>> {
        let mut connected = self.connected();
        if connected.len() >= limits.clients {
            let (longest, idle) = longest_idle(&connected)?;
            if idle < limits.idle {
                return None;
            }
            let leaves = connected.swap_remove(longest);
            leaves.disconnect("it was idle, and a new client needs its place");
        }
        let client = Arc::new(Client::new(stream));
        connected.push(client.clone());
        Some(client)
    }

    /// Removes a client that has disconnected.
    pub(crate) fn remove(&self, client: &Arc<Client>) {
        self.connected().retain(|other| !Arc::ptr_eq(other, client));
        self.left.notify_all();
    }

    /// Accepts no more requests, and returns when all clients are gone. Clients that have not taken
    /// their answers after `grace` are disconnected.
    pub(crate) fn dismiss(&self, grace: Duration) {
        let connected = self.connected();
        for client in &*connected {
            let _ = client.stream.shutdown(Shutdown::Read);
        }
        let waited = self
            .left
            .wait_timeout_while(connected, grace, |connected| !connected.is_empty());
        let (connected, _) = waited.unwrap_or_else(PoisonError::into_inner);
        for client in &*connected {
            client.disconnect("it did not take its answers before the server stopped");
        }
    }

    // Each change is a single call, so a panic cannot leave it half done.
    fn connected(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The index of the client that has been idle for longest, and its idle time.
fn longest_idle(connected: &[Arc<Client>]) -> Option<(usize, Duration)> {
    let idle = connected.iter().map(|client| client.idle()).enumerate();
    idle.max_by_key(|(_, idle)| *idle)
}

/// A connection with a deadline: reads and writes fail after it, however often some bytes arrive.
pub(crate) struct Until<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl<'a> Until<'a> {
    pub(crate) fn new(stream: &'a UnixStream, time: Duration) -> Self {
        let end = Instant::now() + time;
        Self { stream, end }
    }

    /// Removes the deadline.
    pub(crate) fn lift(self) -> io::Result<()> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl io::Read for Until<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buf).map_err(timed_out)
    }
}

impl io::Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket timeout is reported as `WouldBlock`, like on a non-blocking socket.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}
