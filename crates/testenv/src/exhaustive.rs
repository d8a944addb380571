use std::{env, slice};

/// Set by `cargo xtask test --full`: then exhaustive tests try everything, and not only a sample.
pub const EXHAUSTIVE: &str = "VERIMOUNT_EXHAUSTIVE";

/// The sample is one in this many.
const STEP: u64 = 16;

/// Whether [`EXHAUSTIVE`] is set.
pub fn is_exhaustive() -> bool {
    env::var_os(EXHAUSTIVE).is_some()
}

/// All of these, if [`is_exhaustive`]; else every sixteenth, beginning at one that `seed` selects.
pub fn all_or_some<T>(all: Vec<T>, seed: u64) -> Vec<T> {
    if is_exhaustive() {
        return all;
    }
    let first = (seed % STEP) as usize;
    all.into_iter().skip(first).step_by(STEP as usize).collect()
}

/// All of these, if [`is_exhaustive`]; else the one whose turn it is.
pub fn all_or_one<T>(all: &[T], turn: usize) -> &[T] {
    if is_exhaustive() {
        all
    } else {
        slice::from_ref(&all[turn % all.len()])
    }
}

/// `all`, if [`is_exhaustive`]; else a quarter of it. For random cases, of which each run tries others.
pub fn random_cases(all: u32) -> u32 {
    if is_exhaustive() { all } else { all / 4 }
}
