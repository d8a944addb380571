//! Opens by a policy, with backing files from a kernel that checks how they are used.

mod kernel;
mod model;
mod names;
mod opens;
mod race;
mod support;
