//! Tests the reader with images of `mkfs.erofs`, with crafted and with damaged ones, and the writer with the reader and
//! with `fsck.erofs`.

mod committed;
mod compression;
mod craft;
mod hostile;
mod large_directories;
mod mutated;
mod places;
mod real;
mod seen;
mod source;
mod work;
mod writer;
