//! EROFS images with one changed byte: below a seal, what is shown is right, or its read is refused.
//!
//! After each change all blocks of the content are read. A tree depends on them only. So all files are compared once
//! for each set of blocks that are refused.

mod effect;
mod sealed;
mod seen;

use std::{env, fs};

use verimount::{BuildOptions, build};
use verimount_testkit::{Random, RichTree, all_or_some, seed};

use self::sealed::{SEALS, Sealed};

/// How many bytes of the large image are changed, for each seal.
const FLIPS: &str = "VERIMOUNT_FLIPS";

/// How many bytes of the large image are changed, for each seal, if nothing is said.
const USUAL_FLIPS: usize = 320;

const SMALL: RichTree = RichTree {
    files: 85,
    sizes: &[5000],
};

const LARGE: RichTree = RichTree {
    files: 300,
    sizes: &[70_000, 400_001, 1_500_000, 2_300_000],
};

#[test]
fn every_byte_of_a_small_image() {
    let image = image(&SMALL);
    assert!(
        (64 << 10..80 << 10).contains(&image.len()),
        "{}",
        image.len()
    );
    for seal in SEALS {
        let sealed = Sealed::new(seal, &image);
        let all = (0..sealed.len()).collect();
        sealed.try_positions(&all_or_some(all, seed()));
    }
}

#[test]
fn random_bytes_of_a_large_image() {
    let count = env::var(FLIPS).ok();
    let count = count.map_or(USUAL_FLIPS, |count| count.parse().unwrap());
    let image = image(&LARGE);
    assert!(image.len() > 4 << 20);
    let mut random = Random::new(seed());
    for seal in SEALS {
        let sealed = Sealed::new(seal, &image);
        let positions = (0..count).map(|_| random.below(sealed.len()));
        sealed.try_positions(&all_or_some(positions.collect(), 0));
    }
}

fn image(tree: &RichTree) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (root, image) = (folder.path().join("tree"), folder.path().join("image"));
    fs::create_dir(&root).unwrap();
    tree.grow(&root).unwrap();
    let options = BuildOptions {
        seal: None,
        ..BuildOptions::default()
    };
    build(&root, &image, &options).unwrap();
    fs::read(image).unwrap()
}
