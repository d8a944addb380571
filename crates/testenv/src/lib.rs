//! What tests find around them: other people's programs, and what a run of the tests asks for.
//!
//! Without dependencies, so that whatever runs the tests can know of it without compiling what they test.

mod quick;
pub mod tools;

pub use quick::{QUICK, all_or_some};

/// The seeds that the crash simulation of volumes tries, as `FIRST..END`.
pub const CRASH_SEEDS: &str = "VERIMOUNT_CRASH_SEEDS";
