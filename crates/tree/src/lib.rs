//! Read-only directory trees, independent of the formats that store them.
//!
//! A [`Tree`] can be mounted, listed and extracted. Each image format implements it, and so does
//! [`SingleFile`], a directory that contains one file. Nothing here depends on a format or on FUSE.
//!
//! # Implementing a tree
//!
//! A directory of a million files, each with its own name in it:
//!
//! ```
//! use std::ffi::OsStr;
//!
//! use verimount_source::Scratch;
//! use verimount_tree::{
//!     AddEntry, Attr, Cursor, DirEntry, Error, FileType, NodeId, Permissions, Tree, Usage,
//!     part_inside,
//! };
//!
//! struct Numbers;
//!
//! const COUNT: u64 = 1_000_000;
//!
//! /// The files' node ids follow the root's.
//! fn number_of(node: NodeId) -> Result<u64, Error> {
//!     let number = node.get() - NodeId::ROOT.get();
//!     (1..=COUNT).contains(&number).then_some(number).ok_or(Error::NotFound)
//! }
//!
//! fn node_of(number: u64) -> Result<NodeId, Error> {
//!     NodeId::new(NodeId::ROOT.get() + number).ok_or(Error::NotFound)
//! }
//!
//! impl Tree for Numbers {
//!     fn attr(&self, node: NodeId) -> Result<Attr, Error> {
//!         if node == NodeId::ROOT {
//!             return Ok(Attr::new(node, FileType::Directory, Permissions::new(0o755), 0));
//!         }
//!         let size = number_of(node)?.to_string().len() as u64;
//!         Ok(Attr::new(node, FileType::RegularFile, Permissions::new(0o644), size))
//!     }
//!
//!     fn lookup(&self, directory: NodeId, name: &OsStr) -> Result<Attr, Error> {
//!         if directory != NodeId::ROOT {
//!             return Err(Error::NotADirectory);
//!         }
//!         let number: u64 = name.to_str().and_then(|name| name.parse().ok()).ok_or(Error::NotFound)?;
//!         let attr = self.attr(node_of(number)?)?;
//!         // There is no "007".
//!         if name == &*number.to_string() { Ok(attr) } else { Err(Error::NotFound) }
//!     }
//!
//!     fn parent(&self, _: NodeId) -> Result<Attr, Error> {
//!         // The only directory is the root.
//!         Err(Error::NotADirectory)
//!     }
//!
//!     fn list(
//!         &self,
//!         directory: NodeId,
//!         from: Cursor,
//!         add: &mut AddEntry<'_>,
//!     ) -> Result<(), Error> {
//!         if directory != NodeId::ROOT {
//!             return Err(Error::NotADirectory);
//!         }
//!         // A cursor is the number of the last file that was listed.
//!         for number in from.get() + 1..=COUNT {
//!             let name = number.to_string();
//!             let entry = DirEntry {
//!                 name: name.as_ref(),
//!                 node: node_of(number)?,
//!                 ino: number,
//!                 file_type: FileType::RegularFile,
//!             };
//!             if add(entry, Cursor::new(number).expect("a small number")).is_break() {
//!                 break;
//!             }
//!         }
//!         Ok(())
//!     }
//!
//!     fn read<'s>(
//!         &self,
//!         node: NodeId,
//!         offset: u64,
//!         len: usize,
//!         scratch: &'s mut Scratch,
//!     ) -> Result<&'s [u8], Error> {
//!         let content = number_of(node)?.to_string();
//!         let part = part_inside(offset, len, content.len() as u64);
//!         let bytes = scratch.grown(part.len());
//!         bytes.copy_from_slice(&content.as_bytes()[part]);
//!         Ok(bytes)
//!     }
//!
//!     fn usage(&self) -> Usage {
//!         Usage { bytes: 0, name_max: 255, max_entries: COUNT }
//!     }
//! }
//!
//! let file = Numbers.lookup(NodeId::ROOT, OsStr::new("4711"))?;
//! let mut scratch = Scratch::default();
//! assert_eq!(Numbers.read(file.node, 1, 100, &mut scratch)?, b"711");
//! # Ok::<_, Error>(())
//! ```

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod access_list;
mod attr;
mod entry;
mod error;
mod extent;
mod file_type;
mod follow;
mod lost;
mod measurement;
mod node_id;
mod ownership;
mod paths;
mod resolve;
mod single_file;
mod stored_file;
mod timestamp;
mod tree;
mod walk;
mod xattr_names;

pub use access_list::{
    ACCESS_LIST, AccessList, DEFAULT_ACCESS_LIST, InvalidAccessList, Rights, Who,
};
pub use attr::{Attr, DeviceNumber, Permissions};
pub use entry::{AddEntry, AddEntryAndAttr, AddReadable, Cursor, DirEntry};
pub use error::Error;
pub use extent::{Extent, ExtentKind, seek};
pub use file_type::FileType;
pub use follow::follow;
pub use lost::{Example, Lost};
pub use measurement::Measurement;
pub use node_id::NodeId;
pub use ownership::Ownership;
pub use paths::Paths;
pub use resolve::resolve;
pub use single_file::SingleFile;
pub use stored_file::StoredFile;
pub use timestamp::Timestamp;
pub use tree::{FilePlace, PlaceKind, ROOT_PATH, Tree, Usage, VisitPlace, part_inside};
pub use walk::{Ended, MAX_DEPTH, Part, Walk, Walker, part, walk, walk_readable};
pub use xattr_names::{MAX_XATTR_LIST, MAX_XATTR_VALUE, XattrNames};
