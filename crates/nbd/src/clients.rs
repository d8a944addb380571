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

/// What a client does after the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It uses the export.
    Use,
    /// It listens to a check of the export.
    Check,
}

/// A client, and what for it has a place; `None` during the handshake.
struct Place {
    client: Arc<Client>,
    purpose: Option<Purpose>,
}

/// The set of connected clients.
#[derive(Default)]
pub(crate) struct Clients {
    connected: Mutex<Vec<Place>>,
    left: Condvar,
}

impl Clients {
    /// Admits a new client to the handshake; `None` if there is no room for it.
    pub(crate) fn admit(&self, stream: UnixStream, limits: &Limits) -> Option<Arc<Client>> {
        let mut connected = self.connected();
        if connected.len() >= limits.clients.saturating_add(limits.visitors) {
            return None;
        }
        let client = Arc::new(Client::new(stream));
        connected.push(Place {
            client: client.clone(),
            purpose: None,
        });
        Some(client)
    }

    /// Gives a client of the handshake a place for `purpose`. If all places of those who use the
    /// export are taken, the one that has been idle for longest is disconnected, if it exceeds the
    /// idle limit. `false` if there is no place.
    pub(crate) fn grant(&self, client: &Arc<Client>, purpose: Purpose, limits: &Limits) -> bool {
        let mut connected = self.connected();
        let most = match purpose {
            Purpose::Use => limits.clients,
            Purpose::Check => limits.checks,
        };
        let have_it = connected
            .iter()
            .filter(|place| place.purpose == Some(purpose));
        if have_it.count() >= most {
            let Some((longest, idle)) = longest_idle(&connected) else {
                return false;
            };
            if purpose != Purpose::Use || idle < limits.idle {
                return false;
            }
            let leaves = connected.swap_remove(longest).client;
            leaves.disconnect("it was idle, and a new client needs its place");
        }
        let mut places = connected.iter_mut();
        match places.find(|place| Arc::ptr_eq(&place.client, client)) {
            Some(place) => {
                place.purpose = Some(purpose);
                true
            }
            None => false,
        }
    }

    /// Removes a client that has disconnected.
    pub(crate) fn remove(&self, client: &Arc<Client>) {
        self.connected()
            .retain(|other| !Arc::ptr_eq(&other.client, client));
        self.left.notify_all();
    }

    /// Accepts no more requests, and returns when all clients are gone. Clients that have not taken
    /// their answers after `grace` are disconnected.
    pub(crate) fn dismiss(&self, grace: Duration) {
        let connected = self.connected();
        for place in &*connected {
            let _ = place.client.stream.shutdown(Shutdown::Read);
        }
        let waited = self
            .left
            .wait_timeout_while(connected, grace, |connected| !connected.is_empty());
        let (connected, _) = waited.unwrap_or_else(PoisonError::into_inner);
        for place in &*connected {
            place
                .client
                .disconnect("it did not take its answers before the server stopped");
        }
    }

    // Each change is a single call, so a panic cannot leave it half done.
    fn connected(&self) -> MutexGuard<'_, Vec<Place>> {
        self.connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The index of the client that uses the export and has been idle for longest, and its idle time.
fn longest_idle(connected: &[Place]) -> Option<(usize, Duration)> {
    let places = connected.iter().enumerate();
    let users = places.filter(|(_, place)| place.purpose == Some(Purpose::Use));
    let idle = users.map(|(index, place)| (index, place.client.idle()));
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
