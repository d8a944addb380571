//! `verimount doctor`.

use crate::prelude::*;

/// All that it says.
fn diagnoses() -> Vec<Value> {
    let report = verimount(args!["doctor", "--json"]).succeeds().json();
    assert_eq!(report["version"], 1);
    report["diagnoses"].as_array().unwrap().clone()
}

#[test]
fn it_tells_what_is_well_and_what_mends_the_rest() {
    let _world = needs!(World::with_mount_point());
    let all = diagnoses();
    for one in &all {
        assert!(!one["found"].as_str().unwrap().is_empty(), "{one}");
        assert_eq!(one["health"] == "good", one["cure"].is_null(), "{one}");
    }
    let device = all.iter().find(|one| one["about"] == "/dev/fuse").unwrap();
    assert_eq!(device["health"], "good");
    verimount(args!["doctor"]).succeeds().says("/dev/fuse");
}

#[test]
fn the_dead_mount_of_a_killed_daemon_is_found_and_mended() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let cure = format!("verimount umount {}", mnt.to_str().unwrap());
    let is_found = || diagnoses().iter().any(|one| one["cure"] == *cure);
    let mut mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    assert!(!is_found());
    mounted.signal(Signal::KILL);
    mounted.wait();
    assert!(is_found());
    verimount(cure.split(' ').skip(1)).succeeds_quietly();
    assert!(!is_found());
}

/// In a mount namespace without the device.
#[test]
fn without_the_device_nothing_can_be_mounted() {
    if !root_or_skip() {
        return;
    }
    let hidden = "mount -t tmpfs none /dev && exec \"$0\" doctor";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", hidden]).arg(binary());
    finish(unshare)
        .ends_with(3)
        .says("missing")
        .says("modprobe fuse");
}
