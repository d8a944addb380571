//! The same file system over each transport.

mod ends;
mod fairness;
mod handles;
mod held;
mod killed;
mod memory_fs;
mod mounted;
mod operations;
mod processors;
