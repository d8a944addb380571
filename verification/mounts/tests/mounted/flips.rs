//! Changes every single byte of an image, below real mounts: reads return what was stored, or fail.
//!
//! A new mount for each position would take too long for the many positions of data and tree.
//! These are changed below one mount without caches: the daemon has no cache of the tree, and the kernel is
//! told to drop the pages of the files. All others (superblock, headers, index, descriptor, signature,
//! padding) are tried with a new mount each, because kernel and daemon cache names and attributes without
//! limit.

mod copy;
mod erofs;
mod fresh;
mod live;
mod sample;
