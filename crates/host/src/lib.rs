//! What serves verified content on a machine, and what it takes from it.
//!
//! [`mount`](mount()) shows content as a directory, [`bridge`] a directory through a policy, and [`volume`] is a writable disk of
//! which every block is checked. [`mounts`] says what is served and how it ends; [`sandbox`] gives up the rights that serving does
//! not need; [`doctor`] says what a machine allows.
//!
//! An image of a directory, mounted for all programs of this user:
//!
//! ```
//! # if std::fs::File::open("/dev/fuse").is_err() { return Ok(()) }
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # std::fs::create_dir_all("app/docs")?;
//! # std::fs::create_dir("mnt")?;
//! # std::fs::write("app/docs/README.md", "hello\n")?;
//! use verimount::{BuildOptions, Content, OpenOptions, build};
//! use verimount_host::{MountOptions, mount};
//!
//! let built = build("app", "app.img", &BuildOptions::default())?;
//! let digest = built.digest.expect("it is sealed by default");
//! let content = Content::open("app.img", &OpenOptions::new().digest(digest))?;
//! let mount = mount(&content, "mnt", &MountOptions::default())?;
//! assert_eq!(std::fs::read_to_string("mnt/docs/README.md")?, "hello\n");
//! drop(mount);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![warn(missing_debug_implementations)]

mod fault;
mod mount;
mod namer;
mod processors;
mod resident;

pub mod audit;
pub mod bridge;
pub mod cache;
pub mod doctor;
pub mod mounts;
pub mod sandbox;
pub mod volume;

pub use mount::{MountOptions, mount};
pub use resident::ResidentFiles;
pub use verimount_names::{one_line, printable, printable_json};
pub use verimount_serve::Owners;
pub use verimount_tree::Permissions;
