//! A directory mirrored through a policy that decides each open. Knows nothing of FUSE: operations
//! take and return plain types, and errors are the numbers that the source's file system gives,
//! since for a mirror they are the meaning.
//!
//! [`Mirror`] is the directory: names, attributes and content, found by [`NodeId`] as the kernel
//! does. Lookups are counted ([`Entry`], [`Listed`]) until [`Mirror::forget`] takes them back. Files
//! and directories that are open are objects ([`OpenFile`], [`OpenDirectory`]), closed when they are
//! dropped; their content is read and written by descriptor, into whatever buffer the caller has.
//!
//! A thread that serves a mirror is prepared by [`Rights::prepare_thread`].

mod attr;
mod caller;
mod directory;
mod errno;
mod file;
mod held;
mod mirror;
mod name;
mod node;
mod opened;
pub mod policy;
mod reopen;
mod rights;
mod source;
mod table;

pub use attr::{Attr, DeviceNumber, Timestamp};
pub use caller::Caller;
pub use directory::{Listed, OpenDirectory};
pub use file::OpenFile;
pub use mirror::{Changes, Entry, Mirror, MirrorOptions, NewFile, NewTime};
pub use node::NodeId;
pub use rights::Rights;
