//! The output of `list`.

use std::{fs, path::Path};

use rustix::process::Signal;
use serde_json::Value;

use super::world;
use crate::{
    args,
    common::{
        daemon::{Daemon, eventually, unmount_lazily},
        run::verimount,
    },
};

/// How a mount point is listed, if it is.
fn listed(directory: &Path) -> Option<Value> {
    let list = verimount(args!["list", "--json"]);
    let list: Vec<Value> = serde_json::from_str(list.succeeds_quietly().text()).unwrap();
    let mut list = list.into_iter();
    list.find(|listed| listed["target"] == directory.to_str().unwrap())
}

#[test]
fn mounts_are_listed() {
    let Some(world) = world() else { return };
    let image = world.sealed_image("image");
    let [mnt, bridged] = [world.path("mnt"), world.directory("bridged")];
    let source = world.directory("source");
    assert!(listed(&mnt).is_none());
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    let bridge = Daemon::bridge(&source, &bridged, &[]);
    let image_listed = listed(&mnt).unwrap();
    assert_eq!(image_listed["way"], "mount");
    assert_eq!(image_listed["kind"], "image");
    assert_eq!(image_listed["source"], image.to_str().unwrap());
    assert_eq!(image_listed["pin"]["by"], "unpinned");
    assert_eq!(image_listed["pid"], mounted.pid());
    assert_eq!(image_listed["mismatches"], 0);
    assert!(image_listed["error"].is_null());
    let bridge_listed = listed(&bridged).unwrap();
    assert_eq!(bridge_listed["kind"], "bridge");
    assert!(bridge_listed["pin"].is_null());

    let list = verimount(["list"]);
    let list = list.succeeds_quietly().text();
    let row = list.lines().find(|row| row.contains(mnt.to_str().unwrap()));
    let row: Vec<_> = row.unwrap().split_whitespace().collect();
    let pid = mounted.pid().to_string();
    let paths = [&mnt, &image].map(|path| path.to_str().unwrap());
    assert_eq!(row, ["image", &*pid, "unpinned", paths[0], paths[1]]);
    bridge.unmount();
    mounted.unmount();
    assert!(listed(&mnt).is_none());
}

/// A mount that does not answer does not hide the others.
#[test]
fn a_stopped_mount_is_listed() {
    let Some(world) = world() else { return };
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    mounted.signal(Signal::STOP);
    let state = || fs::read_to_string(format!("/proc/{}/stat", mounted.pid())).unwrap();
    eventually("it is stopped", || state().contains(") T "));
    let stopped = listed(&mnt).unwrap();
    mounted.signal(Signal::CONT);
    assert_eq!(stopped["error"], "no answer");
    assert_eq!(stopped["source"], image.to_str().unwrap());
    assert!(stopped["kind"].is_null());
    mounted.unmount();
}

/// The dead mount of a killed daemon can be found, and unmounted.
#[test]
fn a_dead_mount_is_listed() {
    let Some(world) = world() else { return };
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mut killed = Daemon::mount(&image, &mnt, &["--unpinned"]);
    killed.signal(Signal::KILL);
    killed.wait();
    let dead = listed(&mnt).unwrap();
    assert!(dead["kind"].is_null());
    assert!(
        dead["error"].as_str().unwrap().contains("not connected"),
        "{dead}"
    );
    unmount_lazily(&mnt);
    assert!(listed(&mnt).is_none());
}
