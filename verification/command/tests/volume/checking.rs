//! The results of `check`, and accepting bad blocks.

use super::{format, json, mount, open_disk};
use crate::prelude::*;

#[test]
fn bad_ranges_are_named_and_accepted_only_when_told_to() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let content = noise(3 * 4096, 1);
    let mounted = mount(&world, &[]);
    open_disk(&mounted).write_all_at(&content, 1 << 20).unwrap();
    mounted.unmount();
    verimount(args!["volume check", &path]).succeeds_quietly();

    flip_where(&path, &content[..4096]);
    flip_where(&path, &content[8192..]);
    let checked = verimount(args!["volume check", &path]);
    checked.reports_bad_data();
    checked.says("2048..2056: ");
    checked.says("2064..2072: ");
    checked.says("8192 of ");
    let report = json(args!["volume check --json", &path], 1);
    assert_eq!(report["ok"], false);
    assert_eq!(report["bad_bytes"], 8192);
    assert_eq!(report["bad_ranges"], 2);
    let starts = [0, 1].map(|bad| report["bad"][bad]["start_sector"].clone());
    assert_eq!(starts, [2048, 2064]);

    // A part of a block, and what is behind the end, are no ranges of it.
    for range in ["2048..2052", "0..1000000"] {
        let accept = args!["volume check", &path, "--accept", range];
        world.unchanged_by(|| {
            verimount(accept).fails_saying("exceed the volume");
        });
    }
    let accept = args!["volume check", &path, "--accept", "2048..2056"];
    let accepted = verimount(accept);
    accepted.reports_bad_data();
    assert!(!accepted.text().contains("2048..2056: "), "{accepted:?}");
    accepted.says("2064..2072: ");
    let mounted = mount(&world, &[]);
    let disk = open_disk(&mounted);
    let mut changed = content.clone();
    changed[0] ^= 1;
    assert_eq!(read_at(&disk, 1 << 20, 8192).unwrap(), changed[..8192]);
    error_of(read_at(&disk, (1 << 20) + 8192, 4096));
    drop(disk);
    mounted.unmount();
    verimount(args!["volume check", &path, "--accept", "2064..2072"]).succeeds_quietly();
}

/// A check of an intact volume writes nothing.
#[test]
fn checking_changes_nothing() {
    let world = needs!(World::with_mount_point());
    for mode in super::MODES {
        let path = format(&world, &[]);
        let mounted = mount(&world, &["--mode", mode]);
        open_disk(&mounted)
            .write_all_at(&noise(100_000, 1), 5000)
            .unwrap();
        mounted.unmount();
        world.unchanged_by(|| {
            verimount(args!["volume check", &path]).succeeds_quietly();
        });
        std::fs::remove_file(path).unwrap();
    }
}

/// Discarded blocks pass only with `--allow-discards`.
#[test]
fn discarded_blocks() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let mounted = mount(&world, &["--allow-discards"]);
    let disk = open_disk(&mounted);
    let content = noise(8192, 1);
    disk.write_all_at(&content, 0).unwrap();
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&disk, punch, 4000, 4192).unwrap();
    let expected = [&content[..4000], &[0; 4192]].concat();
    assert_eq!(read_at(&disk, 0, 8192).unwrap(), expected);
    drop(disk);
    mounted.unmount();
    let checked = verimount(args!["volume check", &path]);
    checked.reports_bad_data();
    checked.says("8..16: ");
    checked.says("the block looks discarded");
    let note = "note: 1 of 1 bad ranges look discarded, not damaged";
    checked.notes(note);
    checked.notes("--allow-discards");
    let report = json(args!["volume check --json", &path], 1);
    assert_eq!(report["discarded_ranges"], 1);
    verimount(args!["volume check", &path, "--allow-discards"]).succeeds_quietly();
    let mounted = mount(&world, &[]);
    assert!(read_at(&open_disk(&mounted), 4096, 4096).is_err());
    let log = mounted.unmount();
    assert!(log.contains("looks_discarded=true"), "{log}");

    // The other block was damaged.
    flip_where(&path, &content[..4000]);
    let checked = verimount(args!["volume check", &path, "--allow-discards"]);
    checked.reports_bad_data();
    assert_eq!(checked.stderr, "");
    assert!(!checked.text().contains("discarded"), "{checked:?}");
}
