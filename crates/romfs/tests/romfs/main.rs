//! Tests the reader and the writer against simple models, other tools, and hostile images.

mod crafted;
mod damaged;
mod decoder;
mod exchanged;
mod generate;
mod golden;
mod index;
mod large_directories;
mod layout;
mod losses;
mod model;
mod mutated;
mod oracles;
mod refusals;
mod romfs_tree;
mod round_trip;
mod work;
