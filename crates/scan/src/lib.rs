//! Reads a directory tree into memory: everything but the contents of files, for images of any format.
//!
//! [`scan`] makes a [`SourceTree`]: its [`Entry`]s (names) in walk order, and their [`Inode`]s with all
//! that Linux knows about a file. [`Contents`] then opens the files, and tells whether each is still
//! what was scanned. [`scan_archive`] makes the same of a tar archive.
//!
//! Untrusted users may change the tree concurrently. Everything is opened relative to the descriptor
//! of its directory, so nothing outside of the tree is reachable, however its directories are
//! replaced.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//!
//! use verimount_scan::{Contents, InodeKind, Options, scan};
//!
//! let go_on = &mut |_| ControlFlow::Continue(());
//! let tree = scan("app".as_ref(), &Options::default(), go_on)?;
//! let mut contents = Contents::new(&tree)?;
//! for entry in tree.entries().filter(|entry| entry.is_first_name()) {
//!     if let InodeKind::File(file) = &entry.inode().kind {
//!         let content = contents.open(entry.id())?;
//!         let mut bytes = vec![0; file.size() as usize];
//!         content.read_exact_at(&mut bytes, 0)?;
//!         content.finish()?;
//!     }
//! }
//! # Ok::<_, verimount_scan::Error>(())
//! ```

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod archive;
mod attributes;
mod build_error;
mod contents;
mod cursor;
mod error;
mod holes;
mod inode;
mod listing;
mod losses;
mod options;
mod outward_links;
mod patterns;
mod scanning;
mod source_tree;
mod xattr_store;

pub use archive::{ArchiveScan, StoreLayer, scan_archive, scan_layers, scan_store};
pub use build_error::BuildError;
pub use contents::{Content, Contents, Observer};
pub use error::{BadLink, Error, Limit, Misfit};
pub use inode::{FileData, Identity, Inode, InodeId, InodeKind};
pub use losses::{Loss, Losses};
pub use options::{
    AddedFile, AttributeChoice, InvalidOwner, Links, Options, Owner, Times, Whiteouts,
};
pub use outward_links::OutwardLinks;
pub use patterns::{InvalidPattern, Patterns};
pub use scanning::scan;
pub use source_tree::{Entry, EntryId, SourceTree};
pub use verimount_tar::{Compression, Error as ArchiveError, Xattr, check_beginning};
pub use xattr_store::{XattrId, XattrSetId, XattrStore};
