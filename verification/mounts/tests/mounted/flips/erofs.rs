//! EROFS images below each kind of seal. That every byte is checked is tested without mounts, in crate `verimount`.

use super::{fresh::random_positions, sample::Sample};
use crate::prelude::*;

/// How many bytes are changed in each image.
const COUNT: usize = 40;

#[test]
fn random_bytes_with_an_appended_tree() {
    try_random_positions(&SealOptions {
        append: true,
        ..SealOptions::default()
    });
}

#[test]
fn random_bytes_with_a_tree_beside() {
    try_random_positions(&SealOptions::default());
}

#[test]
fn random_bytes_with_an_appended_tree_of_dm_verity() {
    let format = SealFormat::DmVerity(dm_verity::Params::default());
    try_random_positions(&SealOptions {
        append: true,
        format,
        ..SealOptions::default()
    });
}

#[track_caller]
fn try_random_positions(options: &SealOptions) {
    if fuse_or_skip() {
        random_positions(&sample(options), COUNT);
    }
}

/// An image with large and small files, sealed with these options.
fn sample(options: &SealOptions) -> Sample {
    let world = World::new();
    let tree = world.directory("tree");
    fs::create_dir_all(tree.join("folder/inside")).unwrap();
    for (number, size) in [5_000, 300_001, 1 << 20].into_iter().enumerate() {
        let name = format!("folder/large {number}");
        fs::write(tree.join(name), noise(size, number as u64)).unwrap();
    }
    for number in 0..300 {
        let name = format!("folder/inside/small {number}");
        fs::write(tree.join(name), noise(100, 10 + number)).unwrap();
    }
    fs::hard_link(tree.join("folder/large 0"), tree.join("again")).unwrap();
    symlink("folder/large 1", tree.join("link")).unwrap();
    let image = world.path("image");
    let plain = BuildOptions {
        seal: None,
        ..BuildOptions::default()
    };
    build(&tree, &image, &plain).unwrap();
    let sealed = seal(&image, options).unwrap();
    Sample {
        options: match sealed.identity {
            Identity::FileDigest(digest) => OpenOptions::new().digest(digest),
            Identity::RootHash(root) => OpenOptions::new()
                .root_hash(root.into())
                .hash_offset(sealed.hash_offset),
        },
        sidecar: fs::read(world.path("image.verity")).ok(),
        bytes: fs::read(&image).unwrap(),
        expected: snapshot(&tree).unwrap(),
        // Equal contents are stored once, and ends of files behind their inodes: there is no range of a file.
        large: Vec::new(),
        world,
    }
}
