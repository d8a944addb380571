//! Who is connected, and who has to go.

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

/// A client that is connected.
pub(crate) struct Client {
    stream: UnixStream,
    connected: Instant,
    /// When it was active last, in microseconds since it connected.
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

    /// Notes that it has asked for something, or has taken an answer.
    pub(crate) fn note_activity(&self) {
        let now = self.connected.elapsed().as_micros();
        self.active.store(now as u64, Relaxed);
    }

    /// How long it has not been active.
    fn idle(&self) -> Duration {
        let active = Duration::from_micros(self.active.load(Relaxed));
        self.connected.elapsed().saturating_sub(active)
    }

    /// Ends the connection, whatever is being read or written there.
    pub(crate) fn disconnect(&self, reason: &str) {
        tracing::warn!(reason, "a client is disconnected");
        // It may have gone by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The clients that are connected.
#[derive(Default)]
pub(crate) struct Clients {
    connected: Mutex<Vec<Arc<Client>>>,
    left: Condvar,
}

impl Clients {
    /// Gives a new client a place, of one that has been idle for long if all are taken; `None` if
    /// there is none.
    pub(crate) fn admit(&self, stream: UnixStream, limits: &Limits) -> Option<Arc<Client>> {
        let mut connected = self.connected();
        if connected.len() >= limits.clients {
            let (longest, idle) = longest_idle(&connected)?;
            if idle < limits.idle {
                return None;
            }
            let leaves = connected.swap_remove(longest);
            leaves.disconnect("it is idle, and another one needs its place");
        }
        let client = Arc::new(Client::new(stream));
        connected.push(client.clone());
        Some(client)
    }

    /// Notes that a client has left.
    pub(crate) fn remove(&self, client: &Arc<Client>) {
        self.connected().retain(|other| !Arc::ptr_eq(other, client));
        self.left.notify_all();
    }

    /// Takes no more requests, and returns when all clients have left. Those that have not taken
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
            client.disconnect("it does not take its answers, and the server ends");
        }
    }

    // Each change is a single call.
    fn connected(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client that has been idle for longest, and for how long.
fn longest_idle(connected: &[Arc<Client>]) -> Option<(usize, Duration)> {
    let idle = connected.iter().map(|client| client.idle()).enumerate();
    idle.max_by_key(|(_, idle)| *idle)
}

/// A connection that fails once a time has come, however little was missing.
pub(crate) struct Until<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl<'a> Until<'a> {
    pub(crate) fn new(stream: &'a UnixStream, time: Duration) -> Self {
        let end = Instant::now() + time;
        Self { stream, end }
    }

    /// Lets it take any time from now on.
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

/// What the system says when the time of a socket is over is for sockets that never wait.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}
