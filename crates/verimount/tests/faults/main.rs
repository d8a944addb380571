//! Random faults of a server, of its answers and of the cache on disk, against a model: reads give the right bytes or fail,
//! both within their time, and succeed when the server is well.
#![cfg(feature = "remote")]

mod fault;
mod figures;
mod image;
mod lanes;
mod server;
mod trial;

use std::{env, sync::Arc};

use self::{image::Image, lanes::Lanes};

/// How many sequences are tried.
const SEQUENCES: &str = "VERIMOUNT_FAULTS";

/// The same if nothing is said.
const USUAL_SEQUENCES: u64 = 40;

#[test]
fn faults_give_no_wrong_bytes_and_pass() {
    let count = env::var(SEQUENCES).ok();
    let count = count.map_or(USUAL_SEQUENCES, |count| count.parse().unwrap());
    let seed = seed();
    let figures = Lanes::start(seed, count, Arc::new(Image::new())).finish();
    eprintln!("{figures}");
    figures.assert_sense();
}

/// Other faults in each run. The seed is printed.
fn seed() -> u64 {
    let clock = || {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap();
        since.as_nanos() as u64
    };
    let given = env::var("VERIMOUNT_SEED").ok();
    let seed = given.map_or_else(clock, |seed| seed.parse().unwrap());
    eprintln!("VERIMOUNT_SEED={seed}");
    seed
}
