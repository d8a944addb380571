//! The environment of tests: programs with which they compare results, and the options of a test run.
//!
//! It has no dependencies, so that programs that run the tests can use it without compiling the product.

mod exhaustive;
mod seed;
mod skips;
pub mod tools;

pub use exhaustive::{EXHAUSTIVE, all_or_one, all_or_some, is_exhaustive, random_cases};
pub use seed::{SEED, seed};
pub use skips::{SKIPS, skip};

/// Set by `cargo xtask check` and `cargo xtask test`: then tests of real mounts in libraries run again as `nobody`.
pub const AS_NOBODY: &str = "VERIMOUNT_AS_NOBODY";

/// The seeds that the crash simulation of volumes tries, as `FIRST..END`.
pub const CRASH_SEEDS: &str = "VERIMOUNT_CRASH_SEEDS";
