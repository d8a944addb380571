//! Volumes that are checked while they are mounted.

use std::{fs::File, os::unix::fs::FileExt};

use verimount_testkit::noise;

use super::{flip_where, format, json, mount, open_disk, world};
use crate::{args, common::run::verimount};

/// Every bad range is named, behind the first one, too; and what is in the journal only is checked as well.
#[test]
fn a_mounted_volume_is_checked() {
    let Some(world) = world() else { return };
    let path = format(&world, &[]);
    let content = noise(5 * 4096, 1);
    let mounted = mount(&world, &[]);
    open_disk(&mounted).write_all_at(&content, 1 << 20).unwrap();
    mounted.unmount();

    let mounted = mount(&world, &[]);
    let disk = open_disk(&mounted);
    disk.write_all_at(&noise(4096, 2), 4 << 20).unwrap();
    let checked = verimount(args!["volume", "check", &path]);
    assert_eq!(checked.succeeds_quietly().stderr, "");
    for block in [0, 2, 3] {
        flip_where(&path, &content[block * 4096..][..4096]);
    }
    let report = json(args!["volume", "check", "--json", &path], 1);
    assert_eq!(report["bad_ranges"], 2);
    assert_eq!(report["bad_bytes"], 3 * 4096);
    let bad = [0, 1].map(|number| {
        let bad = &report["bad"][number];
        (
            bad["start_sector"].as_u64().unwrap(),
            bad["end_sector"].as_u64().unwrap(),
        )
    });
    assert_eq!(bad, [(2048, 2056), (2064, 2080)]);
    let status = json(args!["status", "--json", mounted.directory()], 1);
    let sectors: Vec<_> = status["recent_mismatches"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(sectors.len(), 3, "{status}");
    // What changes it takes the volume for itself.
    let accept = args!["volume", "check", &path, "--accept", "2048..2056"];
    verimount(accept).fails_saying("in use");
    drop(disk);
    mounted.unmount();
    verimount(args!["volume", "check", &path]).reports_bad_data();
}

/// One that is locked by something else is waited for, as before.
#[test]
fn what_is_not_mounted_is_in_use() {
    let Some(world) = world() else { return };
    let path = format(&world, &[]);
    let locked = File::open(&path).unwrap();
    locked.lock().unwrap();
    verimount(args!["volume", "check", &path]).fails_saying("in use by another process");
}
