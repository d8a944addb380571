//! FUSE as Linux speaks it, from protocol 7.36 (Linux 5.17) to 7.45.
//!
//! A [`FileSystem`] returns plain values; it knows nothing of messages. [`serve`] does the INIT
//! negotiation with the kernel, reads requests, calls the file system and sends the replies: through
//! `/dev/fuse` with two system calls per request, or through io_uring with one (Linux 6.14, if it is
//! enabled).
//!
//! This crate does not mount: its user mounts and passes the open `/dev/fuse`. All facts about the
//! protocol are from `linux/fuse.h`, which is also available under the BSD licence.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod abandoned;
mod abi;
mod awake;
mod callers;
mod connection;
mod device;
mod dispatch;
mod filesystem;
mod held;
mod held_requests;
mod init;
mod listing;
mod pool;
mod processors;
mod queues;
mod reply;
mod request;
mod session;
mod shares;
mod turns;
mod types;
mod watch;
mod worker;

pub use awake::Awake;
pub use connection::{Backing, Connection};
pub use filesystem::{EntryName, FileSystem};
pub use held::{HELD, Held};
pub use init::{Answering, SessionOptions};
pub use listing::{Name, Names};
pub use session::{Serving, Transport, serve};
pub use shares::Shares;
pub use types::{
    Attr, Caller, Capabilities, CopyRange, Entry, Generation, Handle, NewFile, Node, NodeId,
    OpenFlags, Opened, Read, Seek, SetAttr, SetTime, StatFs, Time, Write, device_number,
    device_parts,
};
