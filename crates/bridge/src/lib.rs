//! A directory mirrored through a policy that decides each open. Knows nothing of FUSE: operations
//! take and return plain types, and errors are the numbers that the source's file system gives,
//! since for a mirror they are the meaning.
//!
//! - [`Mirror`] is the directory: names, attributes and content, found by [`NodeId`] as the kernel
//!   does. Lookups are counted ([`Entry`], [`Listed`]) until [`Bridge::forget`] takes them back.
//! - [`Bridge`] opens the mirror's regular files: the [`Policy`](policy::Policy) says how, and
//!   whatever is passed through has a backing file, made by an implementation of [`Register`].
//! - [`BridgedFile`] and [`OpenDirectory`] are what is open, and closed when they are dropped.
//!
//! Each operation prepares the thread that it runs in as far as it has to ([`Rights`]).

mod attr;
mod backing;
mod bridge;
mod caller;
mod counters;
mod descriptors;
mod directory;
mod errno;
mod file;
mod file_system;
mod kept;
mod mirror;
mod name;
mod node;
mod open_facts;
mod opened;
pub mod policy;
mod reopen;
mod rights;
mod source;
mod table;

pub use attr::{Attr, DeviceNumber, Timestamp};
pub use backing::{Passthrough, Register};
pub use bridge::{Bridge, BridgedFile, explain};
pub use caller::Caller;
pub use counters::{BridgeStatus, Opens, PassthroughStatus, Relayed};
pub use descriptors::max_open_files;
pub use directory::{Listed, OpenDirectory};
pub use file::OpenFile;
pub use mirror::{Changes, Entry, Mirror, MirrorOptions, NewFile, NewTime};
pub use node::NodeId;
pub use rights::Rights;
