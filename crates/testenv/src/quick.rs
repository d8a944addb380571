use std::env;

/// Set by `cargo xtask check`, and by `cargo xtask test` without `--full`: tests that try all of something,
/// which takes long, then try a part of it.
pub const QUICK: &str = "VERIMOUNT_QUICK";

/// Of how many one is tried then.
const STEP: u64 = 16;

/// All of these; if [`QUICK`] is set every sixteenth, from one on that `seed` chooses.
pub fn all_or_some<T>(all: Vec<T>, seed: u64) -> Vec<T> {
    match env::var_os(QUICK) {
        Some(_) => {
            let first = (seed % STEP) as usize;
            all.into_iter().skip(first).step_by(STEP as usize).collect()
        }
        None => all,
    }
}
