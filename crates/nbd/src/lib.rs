//! NBD as clients speak it, over a Unix socket: the fixed newstyle handshake, and all commands that
//! a disk has.
//!
//! An [`Export`] answers with plain values; it knows nothing of messages. A [`Server`] lets clients
//! in, agrees with them, reads requests, has them answered by several threads and sends the answers.
//!
//! The source of all facts is the NBD project's `doc/proto.md`.

mod clients;
mod command;
mod connection;
mod export;
mod handshake;
mod limits;
mod memory;
mod protocol;
mod server;
mod socket;
mod status;

pub use export::{BlockSizes, Export};
pub use limits::Limits;
pub use server::Server;
pub use socket::SocketAccess;
pub use status::{Answer, AskError, ask_status};
