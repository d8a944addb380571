//! Images of two releases of a tree have the same blocks where these have the same files.

use std::{collections::HashSet, fs, os::unix::ffi::OsStrExt, path::Path};

use verimount_testkit::{noise, set_time};

use crate::writer::image_of;

const BLOCK: usize = 4096;

/// A tree with many small and some larger files in several directories, all of one time: the image has the most common
/// time, which files written in different seconds would leave to chance.
fn make(root: &Path) {
    for folder in 0..20 {
        let folder = root.join(format!("folder {folder}"));
        fs::create_dir(&folder).unwrap();
        for number in 0..50 {
            let len = 200 + (number * 7919) % 3000;
            write(&folder.join(format!("small {number}")), len);
        }
        for number in 0..5 {
            write(
                &folder.join(format!("large {number}")),
                50_000 + number * 1000,
            );
        }
        for file in fs::read_dir(&folder).unwrap() {
            set_time(&file.unwrap().path(), 1, 0).unwrap();
        }
        set_time(&folder, 1, 0).unwrap();
    }
}

/// Of each path another content.
fn write(path: &Path, len: usize) {
    let seed = crc32c::crc32c(path.file_name().unwrap().as_bytes());
    let folder = crc32c::crc32c(path.parent().unwrap().file_name().unwrap().as_bytes());
    fs::write(path, noise(len, u64::from(seed) << 32 | u64::from(folder))).unwrap();
}

/// How many blocks of an image another one does not have.
fn new_blocks(image: &[u8], before: &[u8]) -> usize {
    let before: HashSet<&[u8]> = before.chunks(BLOCK).collect();
    let blocks = image.chunks(BLOCK);
    blocks.filter(|block| !before.contains(block)).count()
}

/// Each change is one of few bytes. All that says where something is takes 60 blocks, and a group of small files about ten.
#[test]
fn a_change_moves_blocks_and_changes_few() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    make(folder.path());
    let before = image_of(folder.path());
    assert!(before.len() > 1500 * BLOCK);
    let changes: [(&str, &dyn Fn()); 5] = [
        ("a small file grows", &|| {
            write(&path("folder 3/small 7"), 3900);
        }),
        ("one comes", &|| write(&path("folder 0/another"), 2000)),
        ("one goes", &|| {
            fs::remove_file(path("folder 9/small 20")).unwrap();
        }),
        ("a directory comes", &|| {
            fs::create_dir(path("a folder")).unwrap();
        }),
        ("a larger file grows", &|| {
            write(&path("folder 2/large 1"), 60_000);
        }),
    ];
    let mut last = before;
    for (change, make) in changes {
        make();
        let image = image_of(folder.path());
        // The larger file has 15 blocks.
        let new = new_blocks(&image, &last);
        assert!(
            new <= 60 + 20 + 15,
            "{change}: {new} of {}",
            image.len() / BLOCK
        );
        last = image;
    }
}
