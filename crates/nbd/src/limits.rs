use std::time::Duration;

use crate::protocol::MAX_REQUEST;

/// Limits on the resources that clients may use.
///
/// Idle and stalled clients are disconnected only when others wait for them.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum number of clients that use the export.
    pub clients: usize,
    /// The number of further connections for the handshake, in which the status is told, and for
    /// checks: those who ask for these find a place when all clients are connected.
    pub visitors: usize,
    /// The maximum number of checks at a time.
    pub checks: usize,
    /// The memory for the data of all requests in progress, in bytes. A request waits until there
    /// is enough; one that needs more than this waits until it is the only one.
    pub memory: usize,
    /// The time limit of the handshake.
    pub handshake: Duration,
    /// How long a client may be idle before a new client may take its place, if all places are
    /// taken.
    pub idle: Duration,
    /// How long a client may take to send the data of a request or to receive that of an answer.
    /// After that it is disconnected if another client needs the memory. One that checks is
    /// disconnected if it takes longer for one message.
    pub stall: Duration,
    /// How long clients may take to receive their remaining answers after
    /// [`Server::stop`](crate::Server::stop).
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // More than any client needs: copy tools make at most 16 connections.
            clients: 32,
            // A check and some that ask for the status.
            visitors: 4,
            // A second one would only slow the first down.
            checks: 1,
            // Eight of the largest requests.
            memory: 8 * MAX_REQUEST as usize,
            // Clients need milliseconds, or a second on a busy machine.
            handshake: Duration::from_secs(10),
            // Longer than the caches above a disk in use hold back writes.
            idle: Duration::from_secs(300),
            // The largest request then needs 1 MiB/s.
            stall: Duration::from_secs(30),
            // Service managers wait longer than this before they send SIGKILL.
            grace: Duration::from_secs(10),
        }
    }
}
