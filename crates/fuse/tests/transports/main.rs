//! The same file system over each way to the kernel.

mod ends;
mod fairness;
mod killed;
mod memory_fs;
mod mounted;
mod operations;
mod processors;
