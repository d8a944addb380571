//! Files on web servers, read lazily as positional sources.
//!
//! [`RemoteFile`] [fetches](verimount_source::Fetch) over `http://` and `https://`. Only
//! what is asked for, in aligned ranges, and nothing twice at the same time. Files that are used together
//! share a [`Session`].
//!
//! [`registry`] reads and stores what is in container registries, with the credentials of their usual tools;
//! [`cloud`] does so with objects in clouds. Without the feature `clouds`, these have names, but cannot be reached.
//!
//! It promises nothing about the bytes: a server can send anything, so they must be verified by what uses
//! them. Everything else about an answer is checked, and all that a server can make this crate store or
//! wait for is bounded.
//!
//! ```no_run
//! use verimount_remote::Session;
//! use verimount_source::{Ask, Fetch};
//!
//! let file = Session::default().open(&"https://example.org/app.img".parse()?)?;
//! let mut buf = [0; 4096];
//! file.fetch(&mut buf, 0, Ask::default())?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod answer;
mod budget;
mod client;
mod closing;
pub mod cloud;
mod counters;
mod end;
mod engine;
mod error;
mod fetch;
mod fetcher;
mod flight;
mod granules;
mod headers;
mod held;
mod helping;
mod http;
mod insecure;
mod limits;
mod loopback;
mod proxies;
mod queue;
pub mod registry;
mod remote_file;
mod renewed;
mod resolver;
mod retry_budget;
mod roots;
mod session;
mod url;

#[cfg(test)]
mod tests;

pub use budget::{fetch_memory, fetch_memory_limit, set_fetch_memory};
pub use counters::{RemoteFailure, RemoteStats};
pub use error::Error;
pub use fetch::TakePiece;
pub use headers::{Headers, ParseHeadersError};
pub use helping::{helper_tasks, own_files};
pub use remote_file::RemoteFile;
pub use roots::has_system_certificates;
pub use session::{Authorities, ParseAuthoritiesError, RemoteOptions, Session};
pub use url::{ParseUrlError, RemoteUrl};
