//! An NBD server on a Unix socket: the fixed newstyle handshake and all commands of a disk.
//!
//! An [`Export`] returns plain values and knows nothing of messages. A [`Server`] accepts clients,
//! negotiates with them, and answers their requests with several threads.
//!
//! The protocol is specified in the NBD project's `doc/proto.md`.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod cgroup;
pub mod client;
mod clients;
mod command;
mod connection;
mod export;
mod handshake;
mod limits;
mod memory;
mod own_option;
mod protocol;
mod server;
mod socket;
mod until;

pub use cgroup::{memory_limit, memory_share};
pub use export::{BlockSizes, Export};
pub use limits::Limits;
pub use own_option::{OwnOption, Talk, Tell};
pub use server::Server;
pub use socket::SocketAccess;
