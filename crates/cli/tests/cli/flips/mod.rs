//! Every single changed byte of an image, seen through real mounts: what is read is what was
//! stored, or the read is refused.
//!
//! A new mount for each position would take too long for the many positions of data and tree.
//! These are changed below one mount that keeps nothing: the daemon has no cache of the tree, and
//! the kernel is told to forget the pages of the files. All others (superblock, headers, index,
//! descriptor, signature, padding) are tried under a fresh mount each, because kernel and daemon
//! keep names and attributes for good.

mod copy;
mod fresh;
mod live;
mod sample;
