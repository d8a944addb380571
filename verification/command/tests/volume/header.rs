//! Superblocks that are copied, lost, and written again.

use super::{format, mount, open_disk};
use crate::prelude::*;

/// The size of a superblock in bytes.
const HEADER: usize = 4096;

/// Overwrites the superblock with zeros.
fn lose(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0; HEADER], 0).unwrap();
}

#[test]
fn a_copy_is_read_by_and_restored() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let copy = world.path("header");
    let content = noise(100_000, 1);
    let mounted = mount(&world, &[]);
    let disk = open_disk(&mounted);
    disk.write_all_at(&content, 0).unwrap();
    verimount(args!["volume backup-header", &path, &copy]).succeeds();
    drop(disk);
    mounted.unmount();
    assert_eq!(fs::read(&copy).unwrap(), fs::read(&path).unwrap()[..HEADER]);
    // It is not written over.
    verimount(args!["volume backup-header", &path, &copy]).fails_saying("File exists");

    lose(&path);
    let lost = fs::read(&path).unwrap();
    verimount(args!["volume check", &path]).fails_saying("not a dm-integrity volume");
    verimount(args!["volume check", &path, "--header", &copy]).succeeds();
    let writing = args!["volume mount", &path, world.path("mnt"), "--header", &copy];
    verimount(writing).fails_saying("can only be read");
    let mounted = mount(
        &world,
        &["--mode", "read-only", "--header", copy.to_str().unwrap()],
    );
    let disk = File::open(mounted.path("disk")).unwrap();
    assert_eq!(read_at(&disk, 0, content.len()).unwrap(), content);
    drop(disk);
    mounted.unmount();
    assert!(fs::read(&path).unwrap() == lost);

    let restored = verimount(args!["volume restore-header", &path, &copy]);
    restored.succeeds();
    assert!(restored.text().contains("restored the superblock from"));
    verimount(args!["volume check", &path]).succeeds();
}

/// A copy of another volume, or of this one before it was formatted again.
#[test]
fn what_does_not_belong_to_it_is_not_written() {
    let world = World::new();
    let path = format(&world, &[]);
    let copy = world.path("header");
    verimount(args!["volume backup-header", &path, &copy]).succeeds();
    verimount(args!["volume format --force", &path]).succeeds();
    let before = fs::read(&path).unwrap();
    let refused = verimount(args!["volume restore-header", &path, &copy]);
    refused.fails_saying("the superblock is not this volume's");
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn it_is_made_again_from_options() {
    let world = World::new();
    let options = [
        "--integrity-legacy-hmac",
        "--integrity",
        "sha256",
        "--sector-size",
        "512",
    ];
    let path = format(&world, &options);
    let before = fs::read(&path).unwrap();
    let made = world.path("header");
    lose(&path);
    let rebuild =
        |options: &[&str]| verimount(args!["volume rebuild-header", &path, &made; options.iter()]);
    rebuild(&options[1..]).fails_saying("salt");
    // Another layout, another algorithm.
    rebuild(&options[..3]).fails_saying("journal");
    let mut wrong = options;
    wrong[2] = "blake2b-256";
    rebuild(&wrong).fails_saying("do not match their tags");
    assert!(!made.exists());
    rebuild(&options).succeeds();
    verimount(args![
        "volume restore-header --integrity sha256",
        &path,
        &made
    ])
    .succeeds();
    assert!(fs::read(&path).unwrap() == before);
}
