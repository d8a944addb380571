//! Shared by the programs that developers and CI run in this repository: `xtask` and those that it starts.
//!
//! Nothing here depends on the product, so that a task is compiled in seconds.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

pub mod cargo_tool;
pub mod command;
pub mod debian;
mod download;
pub mod interrupt;
pub mod loop_device;
pub mod mount_point;
pub mod newer;
pub mod program;
pub mod seaweedfs;
pub mod setup;
pub mod venv;
pub mod workspace;
