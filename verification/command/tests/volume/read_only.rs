//! Volumes that cannot or may not be written: all of them can be read and checked.

use rustix::mount::mount_remount;

use super::{
    clients::{client, uri},
    dies, format, json, mount, open_disk,
};
use crate::prelude::*;

const READ_ONLY: [&str; 2] = ["--mode", "read-only"];

/// Writes to a volume, and kills its daemon, so that recovery is needed; returns the content of the disk's
/// beginning.
fn crash(path: &Path, mnt: &Path, mode: &str) -> Vec<u8> {
    let content = noise(1 << 20, 1);
    let killed = Daemon::volume(path, mnt, &["--mode", mode]);
    let disk = open_disk(&killed);
    disk.write_all_at(&content, 0).unwrap();
    disk.sync_all().unwrap();
    drop(disk);
    killed.signal(Signal::KILL);
    dies(killed);
    content
}

/// It can be checked, and be mounted read-only and for recovery; nothing of it changes.
#[track_caller]
fn can_be_read(path: &Path, mnt: &Path, content: &[u8]) {
    let stored = fs::read(path).unwrap();
    let checked = verimount(args!["volume check", path]);
    assert_eq!(checked.succeeds_quietly().stderr, "");
    let mounted = Daemon::volume(path, mnt, &READ_ONLY);
    let writing = OpenOptions::new().write(true).open(mounted.path("disk"));
    assert_eq!(error_of(writing), Errno::ROFS);
    let disk = File::open(mounted.path("disk")).unwrap();
    assert!(read_at(&disk, 0, content.len()).unwrap() == content);
    disk.sync_all().unwrap();
    // Others may read it at the same time.
    verimount(args!["volume check", path]).succeeds_quietly();
    let status = json(args!["status --json", mnt], 0);
    assert_eq!(status["mode"], "read-only");
    drop(disk);
    mounted.unmount();
    Daemon::volume(path, mnt, &["--mode", "recovery"]).unmount();
    assert!(fs::read(path).unwrap() == stored);
}

#[test]
fn the_state_after_a_crash_is_read_and_not_changed() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let content = crash(&path, &world.path("mnt"), "journal");
    can_be_read(&path, &world.path("mnt"), &content);
    // It needs no right to write.
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    can_be_read(&path, &world.path("mnt"), &content);
    if !is_root() {
        verimount(args!["volume mount", &path, world.path("mnt")])
            .fails_saying("Permission denied");
        verimount(args!["volume check", &path, "--accept", "0..8"])
            .fails_saying("Permission denied");
    }
}

#[test]
fn a_read_only_export() {
    let world = World::new();
    let path = format(&world, &[]);
    let served = Daemon::nbd(&path, &world.path("socket"), &READ_ONLY);
    if let Some(ended) = client("nbdinfo", &["--json", "--no-content", &uri(&world)]) {
        let info: Value = ended.succeeds().json();
        assert_eq!(info["exports"][0]["is_read_only"], true);
    }
    // While it is read, it cannot be written.
    verimount(args![
        "volume serve",
        &path,
        "--socket",
        world.path("other")
    ])
    .fails_saying("in use");
    assert!(!world.path("other").exists());
    umount(&world.path("socket"));
    drop(served);
}

#[test]
fn damage_is_noticed() {
    let world = needs!(World::with_mount_point());
    let path = format(&world, &[]);
    let content = noise(16384, 1);
    let mounted = mount(&world, &[]);
    open_disk(&mounted).write_all_at(&content, 0).unwrap();
    mounted.unmount();
    flip_where(&path, &content[8192..12288]);
    let mounted = mount(&world, &READ_ONLY);
    let disk = File::open(mounted.path("disk")).unwrap();
    assert_eq!(error_of(read_at(&disk, 0, 16384)), Errno::IO);
    assert!(read_at(&disk, 0, 8192).unwrap() == content[..8192]);
    let status = json(args!["status --json", mounted.directory()], 1);
    assert_eq!(status["recent_mismatches"][0]["sector"], 16);
    let shown = verimount(args!["status", mounted.directory()]);
    shown.says("block at sector 16: ");
    drop(disk);
    mounted.unmount();
}

/// A file system in a file, mounted; `None`, after a note, if that is impossible.
fn host(world: &World, size: u64) -> Option<(Loop, PathBuf)> {
    let image = world.path("host.img");
    File::create(&image).unwrap().set_len(size).unwrap();
    let mut make = Command::new(tools::find("mkfs.ext4")?);
    make.args(["-q", "-m", "0"]).arg(&image);
    finish(make).succeeds();
    Some((Loop::new(&image, false)?, world.directory("host")))
}

#[test]
fn on_a_file_system_that_is_read_only() {
    needs!(root_or_skip());
    for mode in ["journal", "bitmap"] {
        let world = needs!(World::with_mount_point());
        let (device, host) = needs!(host(&world, 48 << 20));
        let _mounted = KernelMount::ext4(&device, &host);
        let (path, mnt) = (host.join("vol.img"), world.path("mnt"));
        verimount(args!["volume format", &path, "--size", "32M"]).succeeds_quietly();
        let content = crash(&path, &mnt, mode);
        mount_remount(&host, MountFlags::RDONLY, "").unwrap();
        verimount(args!["volume mount", &path, &mnt]).fails_saying("Read-only file system");
        if mode == "journal" {
            can_be_read(&path, &mnt, &content);
            continue;
        }
        // Their tags cannot be computed, and it is not said that they are right.
        let report = json(args!["volume check --json", &path], 0);
        assert_eq!(report["unchecked_from"], 0);
        let checked = verimount(args!["volume check", &path]);
        let checked = checked.succeeds_quietly().text();
        assert!(checked.contains("not all blocks"), "{checked}");
        assert!(!checked.contains("all 3"), "{checked}");
        let mounted = Daemon::volume(&path, &mnt, &READ_ONLY);
        let disk = File::open(mounted.path("disk")).unwrap();
        assert!(read_at(&disk, 0, content.len()).unwrap() == content);
        drop(disk);
        mounted.unmount();
    }
}

#[test]
fn on_a_file_system_that_is_full() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let (device, host) = needs!(host(&world, 48 << 20));
    let _mounted = KernelMount::ext4(&device, &host);
    let (path, mnt) = (host.join("vol.img"), world.path("mnt"));
    verimount(args!["volume format", &path, "--size", "40M"]).succeeds_quietly();
    let content = crash(&path, &mnt, "journal");
    fill(&host);
    // What was committed cannot be brought to its place, which is logged, too.
    let refused = verimount(args!["volume mount", &path, &mnt]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    refused.notes("No space left");
    can_be_read(&path, &mnt, &content);
}

/// Fills a file system.
fn fill(host: &Path) {
    let filler = File::create(host.join("filler")).unwrap();
    let mut offset = 0;
    for len in [1 << 20, 4096] {
        let bytes = vec![7; len];
        while filler.write_all_at(&bytes, offset).is_ok() && filler.sync_all().is_ok() {
            offset += len as u64;
        }
    }
}
