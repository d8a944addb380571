use std::time::Duration;

use crate::protocol::MAX_REQUEST;

/// What clients may take of a server.
///
/// A client that takes more is disconnected where others wait for it; where nobody does, it may take
/// any time.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many clients may be connected at once.
    pub clients: usize,
    /// The memory for the data of all requests that are under way, in bytes. A request waits until
    /// there is enough; one that needs more than this waits until there is no other.
    pub memory: usize,
    /// How long a client may take for the handshake.
    pub handshake: Duration,
    /// How long a client may ask for nothing before a new client may take its place, if all places
    /// are taken.
    pub idle: Duration,
    /// How long a client may take to send the data of a request, or to take that of an answer, before
    /// it is disconnected for the memory, if another client needs that.
    pub stall: Duration,
    /// How long, after [`Server::stop`](crate::Server::stop), clients may take for what they still
    /// have to take.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // More than any use has: programs that copy make 16 connections at most.
            clients: 32,
            // Eight of the largest requests.
            memory: 8 * MAX_REQUEST as usize,
            // It takes clients milliseconds, and a second on a busy machine.
            handshake: Duration::from_secs(10),
            // Longer than the caches above a disk in use keep what is to be written.
            idle: Duration::from_secs(300),
            // The largest request then needs 1 MiB a second.
            stall: Duration::from_secs(30),
            // Service managers wait longer before they kill.
            grace: Duration::from_secs(10),
        }
    }
}
