//! Volumes on storage that became larger.

use super::{MODES, format, json, mount, open_disk};
use crate::prelude::*;

const MIB: u64 = 1 << 20;

#[test]
fn by_making_the_file_longer() {
    let world = needs!(World::with_mount_point());
    for mode in MODES {
        let path = format(&world, &[]);
        let content = noise(100_000, 1);
        let mounted = mount(&world, &["--mode", mode]);
        let disk = open_disk(&mounted);
        let old = disk.metadata().unwrap().len();
        disk.write_all_at(&content, old - 100_000).unwrap();
        disk.sync_all().unwrap();
        // In use, it stays as it is.
        verimount(args!["volume grow", &path, "--size", "64M"]).fails_saying("in use");
        assert_eq!(path.metadata().unwrap().len(), 16 * MIB);
        drop(disk);
        mounted.unmount();

        let grown = verimount(args!["volume grow", &path, "--size", "64M"]);
        grown.succeeds();
        let info = json(args!["volume info --json", &path], 0);
        let new = info["size"].as_u64().unwrap();
        assert!(new > 60 * MIB, "{new}");
        assert!(
            grown
                .text()
                .contains(&format!("{new} bytes, {} more", new - old))
        );

        let mounted = mount(&world, &["--mode", mode]);
        let disk = open_disk(&mounted);
        assert_eq!(disk.metadata().unwrap().len(), new);
        assert_eq!(read_at(&disk, old - 100_000, 100_000).unwrap(), content);
        let added = read_at(&disk, old, (new - old) as usize).unwrap();
        assert!(added.iter().all(|byte| *byte == 0));
        drop(disk);
        mounted.unmount();
        std::fs::remove_file(path).unwrap();
    }
}

/// The added part reads as zeros whatever it contained, also if the file becomes longer still.
#[test]
fn with_a_file_that_is_longer_already() {
    for options in [&[][..], &["--size", "32M"]] {
        let world = World::new();
        let path = format(&world, &[]);
        let grow = || {
            let grow = args!["volume grow", &path; options.iter()];
            verimount(grow)
        };
        if options.is_empty() {
            let unchanged = grow();
            unchanged.succeeds();
            unchanged.says("no room");
        }
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&noise(MIB as usize, 2), 16 * MIB)
            .unwrap();
        grow().succeeds();
        let checked = json(args!["volume check --json", &path], 0);
        assert!(checked["size"].as_u64().unwrap() > 16 * MIB);
        let blocks = std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap());
        assert!(blocks * 512 < 4 * MIB, "it takes storage for zeros");
    }
}

#[test]
fn volumes_that_cannot_grow_stay_unchanged() {
    let world = World::new();
    let path = format(&world, &[]);
    let before = std::fs::read(&path).unwrap();
    let grow = |options: &[&str]| {
        let grow = args!["volume grow", &path; options.iter()];
        verimount(grow)
    };
    grow(&["--size", "8M"]).fails_saying("volumes cannot shrink");
    grow(&["--size", "64M", "--integrity", "sha256"]).fails_saying("vol.img");
    let missing = args!["volume grow", world.path("missing")];
    verimount(missing).fails_saying("missing: No such file");
    let foreign = world.write("foreign", vec![7; 1 << 20]);
    verimount(args!["volume grow", &foreign, "--size", "8M"]).fails_saying("foreign");
    assert_eq!(foreign.metadata().unwrap().len(), 1 << 20);
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn to_a_disk_of_an_exact_size() {
    let world = World::new();
    let path = world.path("vol.img");
    verimount(args!["volume format", &path, "--disk-size", "3M"]).succeeds();
    let grow = |size: &str| verimount(args!["volume grow", &path, "--disk-size", size]);
    let size = || json(args!["volume info --json", &path], 0)["size"].clone();
    grow("40M").succeeds();
    assert_eq!(size(), 40 * MIB);
    let len = path.metadata().unwrap().len();
    // As much as was there, and no more than is needed.
    let again = grow("40M");
    again.succeeds();
    again.says("as before");
    assert_eq!(path.metadata().unwrap().len(), len);
    grow("39M").fails_saying("volumes cannot shrink");
    assert_eq!(size(), 40 * MIB);
    // In a file that is longer already, it takes only a part.
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(len + 64 * MIB).unwrap();
    grow("41M").succeeds();
    assert_eq!(size(), 41 * MIB);
    assert_eq!(path.metadata().unwrap().len(), len + 64 * MIB);
    verimount(args!["volume check", &path]).succeeds_quietly();
}
