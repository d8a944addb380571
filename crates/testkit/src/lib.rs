//! What Verimount's tests and benchmarks share: sources that fail and wait, generated data, and
//! the external tools that serve as oracles.

mod flipped;
mod pattern;
mod slow;
pub mod tools;

pub use flipped::Flipped;
pub use pattern::{noise, pattern};
pub use slow::Slow;
