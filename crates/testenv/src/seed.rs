use std::{env, time::UNIX_EPOCH};

/// Set to repeat a failure with the same random choices.
pub const SEED: &str = "VERIMOUNT_SEED";

/// A seed for random choices, another one in each run unless [`SEED`] is set. It is printed.
///
/// # Panics
/// If [`SEED`] is no number.
pub fn seed() -> u64 {
    let clock = || {
        let since = UNIX_EPOCH.elapsed().unwrap_or_default();
        since.as_nanos() as u64
    };
    let given = env::var(SEED).ok();
    let seed = given.map_or_else(clock, |text| text.parse().expect("a seed is a number"));
    eprintln!("{SEED}={seed}");
    seed
}
