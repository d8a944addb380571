//! Debian's kernels in virtual machines: fetched without being installed, and booted by QEMU.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod archive;
mod initramfs;
mod kernel;
mod machine;

pub use archive::Archive;
pub use kernel::Kernel;
pub use machine::{Machine, Running};
