//! Random faults of several places of one file, of the file on this machine, its tree and the cache, against a model: as long
//! as each block is right at a place that answers, no read fails or gives wrong bytes, and what is repaired is right.

mod figures;
mod image;
#[path = "../faults/lanes.rs"]
mod lanes;
mod place;
mod power;
mod trial;

use std::{env, sync::Arc};

use verimount_testkit::{is_exhaustive, seed};

use self::{image::Image, lanes::Lanes};

/// How many sequences are tried.
const SEQUENCES: &str = "VERIMOUNT_MIRROR_FAULTS";

#[test]
fn no_read_fails_while_each_block_is_right_somewhere() {
    let count = env::var(SEQUENCES).ok();
    let usual = if is_exhaustive() { 2000 } else { 150 };
    let count = count.map_or(usual, |count| count.parse().unwrap());
    let seed = seed();
    let figures = Lanes::start(seed, count, Arc::new(Image::new())).finish();
    eprintln!("{figures}");
    figures.assert_sense();
}
