//! Opens decided by a policy, with a model of the kernel that checks the use of backing files.

mod kernel;
mod model;
mod names;
mod opens;
mod race;
mod records;
mod source_changes;
mod support;
