//! The mirror against what the system says of the same directory.

mod escape;
mod links;
mod listing;
mod model;
mod rights;
mod support;
