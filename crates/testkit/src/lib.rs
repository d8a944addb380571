//! What Verimount's tests and benchmarks share: sources that fail and wait, storage that loses what was not flushed, generated data, and
//! the external tools that serve as oracles.

mod flipped;
mod pattern;
mod slow;
pub mod tools;
mod volatile;

pub use flipped::Flipped;
pub use pattern::{noise, pattern};
pub use slow::Slow;
pub use volatile::{Power, Volatile};
