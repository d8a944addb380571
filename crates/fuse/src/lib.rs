//! FUSE as Linux speaks it, from protocol 7.36 (Linux 5.17) to 7.45.
//!
//! A [`FileSystem`] answers with plain values; it knows nothing of messages. A [`Session`] agrees
//! with the kernel, reads requests, has them answered and sends the answers: through `/dev/fuse`
//! with two system calls a request, or through io_uring with one (Linux 6.14, where it is switched
//! on).
//!
//! What a file system does not do must be mounted by its user: this crate is given `/dev/fuse`
//! after that. The source of all facts is `linux/fuse.h`, which is under the BSD licence, too.

mod abandoned;
mod abi;
mod awake;
mod callers;
mod connection;
mod device;
mod dispatch;
mod filesystem;
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

pub use awake::{Awake, AwakeLimit};
pub use connection::{Backing, Connection};
pub use filesystem::FileSystem;
pub use init::{Agreement, Answering, Wishes};
pub use listing::{Name, Names, NamesPlus};
pub use session::{Serving, Session, Transport};
pub use shares::Shares;
pub use types::{
    Attr, Caller, Capabilities, CopyRange, CreateMode, Durability, Entry, Handle, NodeId,
    OpenFlags, Opened, Read, Seek, SetAttr, SetTime, StatFs, Statx, Time, Write, device_number,
    device_parts,
};
