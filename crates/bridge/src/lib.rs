//! Mirrors a directory through a policy that decides each open. Operations take and return the types of
//! FUSE's requests, but need no mount; errors are the error numbers of the source's file system.
//!
//! - [`Mirror`] is the directory: names, attributes and content, by [`NodeId`], as in the kernel's
//!   requests. Lookups are counted ([`Entry`]) until [`Bridge::forget`].
//! - [`Bridge`] opens the mirror's regular files as its [`Policy`](policy::Policy) decides. A file
//!   that is passed through has a backing file, made by an implementation of [`Register`].
//! - [`BridgedFile`] and [`OpenDirectory`] are open files and directories, closed on drop.
//!
//! Each operation prepares its thread as far as needed ([`Rights`]).

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod attr;
mod backing;
mod bridge;
mod counters;
mod credentials;
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
mod open_inodes;
mod opened;
pub mod policy;
mod reopen;
mod restrictions;
mod rights;
mod source;
mod table;

pub use backing::{Passthrough, Register, Serving};
pub use bridge::{Audit, Bridge, BridgedFile, explain};
pub use counters::{
    BridgeStatus, Counter, Opens, PassthroughStatus, PolicyStatus, Relayed, ReloadFailure,
    RuleStatus,
};
pub use descriptors::max_open_files;
pub use directory::OpenDirectory;
pub use file::OpenFile;
pub use mirror::{Entry, Mirror, MirrorOptions};
pub use open_inodes::OpenInodes;
pub use restrictions::Restrictions;
pub use rights::Rights;
pub use verimount_fuse::{Attr, Caller, Name, NewFile, NodeId, SetAttr, SetTime, Time};
