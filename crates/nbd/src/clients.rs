//! The connected clients, and disconnecting those that exceed the limits.

use std::{
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::process::geteuid;
use verimount_sync::{Condvar, Mutex};
use verimount_sys::connecting_user;

use crate::Limits;

/// A connected client.
pub(crate) struct Client {
    stream: UnixStream,
    /// Whether it is root's or of the server's own user.
    is_owners: bool,
    connected: Instant,
    /// When it was last active, in microseconds since it connected.
    active: AtomicU64,
}

impl Client {
    fn new(stream: UnixStream, is_owners: bool) -> Self {
        Self {
            stream,
            is_owners,
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
    /// It listens to what the export tells.
    Listen,
}

/// A client, and what for it has a place; `None` during the handshake.
struct Connected {
    client: Arc<Client>,
    purpose: Option<Purpose>,
}

/// The set of connected clients.
#[derive(Default)]
pub(crate) struct Clients {
    connected: Mutex<Vec<Connected>>,
    left: Condvar,
}

impl Clients {
    /// Admits a new client to the handshake; `None` if there is no room for it.
    pub(crate) fn admit(&self, stream: UnixStream, limits: &Limits) -> Option<Arc<Client>> {
        let is_owners = is_owners(&stream);
        self.admit_client(Client::new(stream, is_owners), limits)
    }

    fn admit_client(&self, client: Client, limits: &Limits) -> Option<Arc<Client>> {
        let mut connected = self.connected.lock();
        let competitors = competitors(&connected, client.is_owners);
        if competitors.count() >= limits.clients.saturating_add(limits.visitors) {
            return None;
        }
        let client = Arc::new(client);
        connected.push(Connected {
            client: client.clone(),
            purpose: None,
        });
        Some(client)
    }

    /// Gives a client of the handshake a place for `purpose`. If all places of those who use the
    /// export are taken, the one that has been idle for longest is disconnected, if it exceeds the
    /// idle limit. `false` if there is no place.
    pub(crate) fn grant(&self, client: &Arc<Client>, purpose: Purpose, limits: &Limits) -> bool {
        let mut connected = self.connected.lock();
        let most = match purpose {
            Purpose::Use => limits.clients,
            Purpose::Listen => limits.talks,
        };
        let have_it = || {
            let places = competitors(&connected, client.is_owners);
            places.filter(|place| place.purpose == Some(purpose))
        };
        if have_it().count() >= most {
            let idle = have_it().map(|place| (place.client.idle(), &place.client));
            let leaves = match idle.max_by_key(|(idle, _)| *idle) {
                Some((idle, client)) if purpose == Purpose::Use && idle >= limits.idle => client,
                _ => return false,
            };
            let leaves = leaves.clone();
            connected.retain(|place| !Arc::ptr_eq(&place.client, &leaves));
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
        self.connected
            .lock()
            .retain(|other| !Arc::ptr_eq(&other.client, client));
        self.left.notify_all();
    }

    /// Accepts no more requests, and returns when all clients are gone. Clients that have not taken
    /// their answers after `grace` are disconnected.
    pub(crate) fn dismiss(&self, grace: Duration) {
        let mut connected = self.connected.lock();
        for place in &*connected {
            let _ = place.client.stream.shutdown(Shutdown::Read);
        }
        connected = self
            .left
            .wait_timeout_while(connected, grace, |connected| !connected.is_empty());
        for place in &*connected {
            place
                .client
                .disconnect("it did not take its answers before the server stopped");
        }
    }
}

/// Whether a client is root's or of the server's own user.
fn is_owners(stream: &UnixStream) -> bool {
    let own = [0, geteuid().as_raw()];
    connecting_user(stream).is_ok_and(|user| own.contains(&user))
}

/// The places that count for a client: those of the owners compete only with each other, so that nobody else keeps them out.
fn competitors(connected: &[Connected], is_owners: bool) -> impl Iterator<Item = &Connected> {
    let places = connected.iter();
    places.filter(move |place| place.client.is_owners || !is_owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that does nothing.
    fn stalled(is_owners: bool) -> Client {
        let (stream, _) = UnixStream::pair().unwrap();
        Client::new(stream, is_owners)
    }

    /// Takes all places of one kind of client; returns the last client.
    fn fill(clients: &Clients, is_owners: bool, limits: &Limits) -> Arc<Client> {
        let admitted = || clients.admit_client(stalled(is_owners), limits);
        std::iter::from_fn(admitted).last().unwrap()
    }

    #[test]
    fn others_do_not_keep_the_owners_out() {
        let limits = Limits::default();
        let clients = Clients::default();
        let stranger = fill(&clients, false, &limits);
        assert!(clients.grant(&stranger, Purpose::Listen, &limits));
        let owner = clients.admit_client(stalled(true), &limits).unwrap();
        assert!(clients.grant(&owner, Purpose::Listen, &limits));
        // They are told one thing at a time, and their number has the same limit.
        let second = clients.admit_client(stalled(true), &limits).unwrap();
        assert!(!clients.grant(&second, Purpose::Listen, &limits));
        fill(&clients, true, &limits);
        let most = limits.clients + limits.visitors;
        assert_eq!(clients.connected.lock().len(), 2 * most);
        assert!(clients.admit_client(stalled(false), &limits).is_none());
    }

    #[test]
    fn an_owner_takes_the_place_of_no_one_else() {
        let limits = Limits {
            clients: 1,
            idle: Duration::ZERO,
            ..Limits::default()
        };
        let clients = Clients::default();
        let [stranger, owner] = [false, true].map(|is_owners| {
            let client = clients.admit_client(stalled(is_owners), &limits).unwrap();
            assert!(clients.grant(&client, Purpose::Use, &limits));
            client
        });
        let places = clients.connected.lock();
        assert!(
            places
                .iter()
                .any(|place| Arc::ptr_eq(&place.client, &stranger))
        );
        assert!(
            places
                .iter()
                .any(|place| Arc::ptr_eq(&place.client, &owner))
        );
    }
}
