//! Volumes that are checked while they are in use.

use super::{
    clients::{end, serve},
    format, json, mount, open_disk,
};
use crate::prelude::*;

/// Every bad range is listed, also after the first one, and blocks that are only in the journal are checked.
#[test]
fn a_mounted_volume_is_checked() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let content = noise(5 * 4096, 1);
    let mounted = mount(&world, &[]);
    open_disk(&mounted).write_all_at(&content, 1 << 20).unwrap();
    mounted.unmount();

    let mounted = mount(&world, &[]);
    let disk = open_disk(&mounted);
    disk.write_all_at(&noise(4096, 2), 4 << 20).unwrap();
    let checked = verimount(args!["volume check", &path]);
    assert_eq!(checked.succeeds_quietly().stderr, "");
    for block in [0, 2, 3] {
        flip_where(&path, &content[block * 4096..][..4096]);
    }
    let report = json(args!["volume check --json", &path], 1);
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
    let status = json(args!["status --json", mounted.directory()], 1);
    let sectors: Vec<_> = status["recent_mismatches"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(sectors.len(), 3, "{status}");
    // What changes it takes the volume for itself.
    verimount(args!["volume check", &path, "--accept", "2048..2056"]).fails_saying("in use");
    drop(disk);
    mounted.unmount();
    verimount(args!["volume check", &path]).reports_bad_data();
}

/// However a volume is checked, the report is the same.
#[test]
fn all_ways_to_check_agree() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let content = noise(5 * 4096, 1);
    let mounted = mount(&world, &["--allow-discards"]);
    let disk = open_disk(&mounted);
    disk.write_all_at(&content, 1 << 20).unwrap();
    disk.write_all_at(&content, 3 << 20).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&disk, punch, 3 << 20, content.len() as u64).unwrap();
    drop(disk);
    mounted.unmount();
    for block in [0, 2, 3] {
        flip_where(&path, &content[block * 4096..][..4096]);
    }

    let check = |place: &Path| {
        let mut report = json(args!["volume check --json", place], 1);
        let volume = report.as_object_mut().unwrap().remove("volume");
        assert_eq!(volume.unwrap(), place.to_str().unwrap());
        report
    };
    let alone = check(&path);
    assert_eq!(alone["bad_ranges"], 3);
    assert_eq!(alone["discarded_ranges"], 1);
    let mounted = mount(&world, &[]);
    assert_eq!(check(&path), alone);
    mounted.unmount();
    let socket = world.path("socket");
    let served = serve(&world, &[]);
    assert_eq!(check(&path), alone);
    assert_eq!(check(&socket), alone);
    let checked = verimount(args!["volume check", &socket]);
    checked.reports_bad_data();
    let note = "note: 1 of 3 bad ranges look discarded, not damaged";
    checked.notes(note);
    verimount(args!["volume check", &socket, "--accept", "0..8"]).fails_saying("--accept");
    end(&world, served);
    // Where discards are allowed, they are for those who check there, too.
    let served = serve(&world, &["--allow-discards"]);
    assert_eq!(check(&socket)["bad_ranges"], 2);
    end(&world, served);
}

/// Who uses a volume in recovery mode is who has a damaged one.
#[test]
fn a_volume_in_recovery_mode_is_not_said_to_be_good() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let content = noise(4096, 1);
    let mounted = mount(&world, &[]);
    open_disk(&mounted).write_all_at(&content, 1 << 20).unwrap();
    mounted.unmount();
    flip_where(&path, &content);
    let recovery = ["--mode", "recovery"];
    let mounted = mount(&world, &recovery);
    verimount(args!["volume check", &path]).reports_bad_data();
    mounted.unmount();
    let served = serve(&world, &recovery);
    verimount(args!["volume check", &path]).reports_bad_data();
    let checked = verimount(args!["volume check", world.path("socket")]);
    checked.fails_saying("not checked").ends_with(3);
    assert!(checked.stdout.is_empty(), "{checked:?}");
    end(&world, served);
}

/// A socket of another program is not taken for an export.
#[test]
fn only_exported_volumes_are_checked_by_socket() {
    let world = World::new();
    let socket = world.path("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let greets = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"220 this is not a server of disks\r\n")
    });
    let checked = verimount(args!["volume check", &socket]);
    checked.fails_saying("not a verimount export");
    greets.join().unwrap().unwrap();
}

/// The command waits for a volume that another program has locked, and says which.
#[test]
fn what_is_not_mounted_is_in_use() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let locked = File::open(&path).unwrap();
    locked.lock().unwrap();
    let holder = format!("in use by process {} (", std::process::id());
    verimount(args!["volume check", &path]).fails_saying(&holder);
    drop(locked);
    let mounted = mount(&world, &[]);
    let grow = verimount(args!["volume grow", &path]);
    grow.fails_saying(&format!("in use by process {} (", mounted.pid()));
    grow.fails_saying(&format!("on {}", mounted.directory().to_str().unwrap()));
    mounted.unmount();
}
