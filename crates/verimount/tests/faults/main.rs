//! Random faults of a server, of its answers and of the cache on disk, against a model: reads give the right bytes or fail,
//! both within their time, and succeed when the server is well.

mod fault;
mod figures;
mod image;
mod lanes;
mod server;
mod trial;

use std::{env, sync::Arc};

use verimount_testkit::seed;

use self::{image::Image, lanes::Lanes};

/// How many sequences are tried.
const SEQUENCES: &str = "VERIMOUNT_FAULTS";

/// How many sequences are tried if nothing is said.
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
