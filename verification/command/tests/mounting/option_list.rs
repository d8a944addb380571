//! `-o`: the options of each command that mounts, as in fstab.

use super::world_with_image;
use crate::prelude::*;

#[test]
fn an_image_takes_a_list() {
    let world = needs!(world_with_image(&[]));
    let image = world.path("image");
    let list = "rw,unpinned,noexec,tree_cache=1M,x-anything";
    let mounted = Daemon::mount(&image, &world.path("mnt"), &["-o", list]);
    assert!(fs::read(mounted.path("data/large")).is_ok());
    let refused = Command::new(mounted.path("bin/program")).status();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
    mounted.unmount();
}

#[test]
fn a_bridge_takes_a_list() {
    let world = needs!(World::with_mount_point());
    let source = world.directory("source");
    let mnt = world.path("mnt");
    for (list, may) in [("rw,passthrough=never", true), ("ro", false)] {
        let mounted = Daemon::bridge(&source, &mnt, &["-o", list]);
        assert_eq!(File::create(mounted.path("new")).is_ok(), may, "{list}");
        mounted.unmount();
    }
}

#[test]
fn a_volume_takes_a_list() {
    let world = needs!(World::with_mount_point());
    let volume = world.path("volume");
    verimount(args!["volume format", &volume, "--size", "4M"]).succeeds();
    let mnt = world.path("mnt");
    for (list, may) in [("commit_time=5", true), ("ro", false)] {
        let mounted = Daemon::volume(&volume, &mnt, &["-o", list]);
        let disk = File::options().write(true).open(mounted.path("disk"));
        assert_eq!(disk.is_ok(), may, "{list}");
        drop(disk);
        mounted.unmount();
    }
}

#[test]
fn mistakes_are_wrong_usage() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    for (list, words) in [
        ("unpinned,what", "option 2 of the list, what, is unknown"),
        ("unpinned=1", "--unpinned"),
        ("uid=nobody", "--uid"),
        ("unpinned,unverified", "cannot be used with"),
    ] {
        let mount = args!["mount", &image, world.path("mnt"), "-o", list];
        let ended = verimount(mount);
        ended.is_wrong_usage();
        assert!(ended.stderr.contains(words), "no {words:?} in {ended:?}");
    }
    verimount(args!["mount", &image, world.path("mnt"), "-o"]).is_wrong_usage();
}
