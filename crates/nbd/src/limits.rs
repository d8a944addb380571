use std::time::Duration;

use crate::{cgroup::memory_share, protocol::MAX_REQUEST};

/// Limits on the resources that clients may use.
///
/// Idle and stalled clients are disconnected only when others wait for them. Clients of root and of the server's
/// own user are counted by themselves: whoever else may connect cannot keep them out.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum number of clients that use the export.
    pub clients: usize,
    /// The number of further connections for the handshake and for [`Talk`](crate::Talk)s: those who ask for
    /// an option of the export's own find a place when all clients are connected.
    pub visitors: usize,
    /// The maximum number of [`Talk`](crate::Talk)s at a time.
    pub talks: usize,
    /// The memory for the data of all requests in progress, in bytes. A request waits until there
    /// is enough; one that needs more than this waits until it is the only one.
    pub memory: usize,
    /// The time limit of the handshake.
    pub handshake: Duration,
    /// How long a client may be idle before a new client may take its place, if all places are
    /// taken.
    pub idle: Duration,
    /// How long a client may take to send the data of a request or to receive that of an answer.
    /// After that it is disconnected if another client needs the memory. One that is told something
    /// is disconnected if it takes longer for one reply.
    pub stall: Duration,
    /// How long clients may take to receive their remaining answers after
    /// [`Server::stop`](crate::Server::stop).
    pub grace: Duration,
}

/// The part of a control group's memory that data of requests may take: a quarter. The volume's tags take 16 MiB, and what
/// is written to its storage is held by the system as well.
const SHARE: u64 = 4;

impl Limits {
    /// The default limits, with less memory if the process may have little itself.
    pub fn of_system() -> Self {
        let usual = Self::default();
        Self {
            memory: memory_share(SHARE, usual.memory),
            ..usual
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // More than any client needs: copy tools make at most 16 connections.
            clients: 32,
            // One that listens for long, and some that ask for one reply.
            visitors: 4,
            // What takes long is work for the disk: a second one would only slow the first down.
            talks: 1,
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
