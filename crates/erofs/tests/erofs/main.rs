//! Tests the reader with images of `mkfs.erofs`, with crafted and with damaged ones.

mod committed;
mod craft;
mod hostile;
mod large_directories;
mod mutated;
mod real;
mod seen;
