//! What can be mounted: a read-only directory tree, in a romfs image or around a single file.
//!
//! [`Tree`] is all that a mount needs to know. Nothing here knows of FUSE, so everything is tested
//! without a mount.

mod blocks;
mod directories;
mod error;
mod paths;
mod romfs;
mod single;
mod tree;

pub use blocks::Blocks;
pub use error::Error;
pub use paths::Paths;
pub use romfs::RomfsTree;
pub use single::SingleFile;
pub use tree::{Attr, Inode, Tree, Usage};
/// The type of a file: romfs has all that there are.
pub use verimount_romfs::NodeKind as FileKind;
