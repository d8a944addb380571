//! Compares the mirror with the system's own view of the same directory.

mod escape;
mod links;
mod listing;
mod model;
mod mounts;
mod races;
mod read_only;
mod rights;
mod source_decides;
mod support;
mod xattrs;
