//! The output of `list`.

use std::fs::DirEntry;

use crate::prelude::*;

/// How a mount point is listed, if it is.
fn listed(directory: &Path) -> Option<Value> {
    let list = verimount(args!["list --json"]);
    let list: Vec<Value> = serde_json::from_value(list.succeeds_quietly().json()).unwrap();
    let mut list = list.into_iter();
    list.find(|listed| listed["target"] == directory.to_str().unwrap())
}

#[test]
fn mounts_are_listed() {
    let world = needs!(World::with_mount_point());
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
    assert_eq!(listed(&mnt).unwrap()["state"], "live");
    bridge.unmount();
    mounted.unmount();
    assert!(listed(&mnt).is_none());
}

/// What is printed of all is what is printed of each.
#[test]
fn the_status_of_all_is_shown() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let [first, second] = [world.path("mnt"), world.directory("second")];
    let mounts = [&first, &second].map(|mnt| Daemon::mount(&image, mnt, &["--unpinned"]));
    let all = |option: &[&str]| {
        let ended = verimount([&["status", "--all"], option].concat());
        ended.text().to_owned()
    };
    let answers: Vec<Value> = serde_json::from_str(&all(&["--json"])).unwrap();
    let text = all(&[]);
    let metrics = all(&["--prometheus"]);
    for mounted in &mounts {
        let target = mounted.directory().to_str().unwrap();
        let answer = answers.iter().find(|answer| answer["target"] == target);
        assert_eq!(answer.unwrap()["status"]["daemon"]["pid"], mounted.pid());
        assert!(
            text.contains(&format!("target         {target}\n")),
            "{text}"
        );
        let up = format!("verimount_up{{target=\"{target}\"}} 1\n");
        assert!(metrics.contains(&up), "{metrics}");
    }
    // The samples of a metric are together.
    assert_eq!(metrics.matches("# TYPE verimount_up gauge\n").count(), 1);
    for mounted in mounts {
        mounted.unmount();
    }
}

/// A label is the same from everywhere, and through any link.
#[test]
fn metrics_have_the_absolute_mount_point() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    symlink(&mnt, world.path("link")).unwrap();
    for given in ["mnt", "./mnt/", "link"] {
        let mut status = User::Current.command();
        status.args(["status", "--prometheus", given]);
        status.current_dir(world.root());
        let status = finish(status);
        let label = format!(
            "verimount_mismatches_total{{target=\"{}\"}} 0",
            mnt.to_str().unwrap()
        );
        status.succeeds_quietly().says(&label);
    }
    mounted.unmount();
}

/// Its process could say anything, but the kernel tells which one it is.
#[test]
fn another_users_mount_is_shown_with_its_process() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let nobody = User::ordinary(&world);
    nobody.own(&mnt);
    let Ok(mounted) = Daemon::start(nobody.command(), &image, &mnt, &["--unpinned"]) else {
        skip("ordinary users cannot mount");
        return;
    };
    let listed = listed(&mnt).unwrap();
    assert_eq!(listed["error"], "belongs to another user");
    assert_eq!(listed["source"], image.to_str().unwrap());
    if has_connection(mounted.pid()) {
        assert_eq!(listed["pid"], mounted.pid());
    }
    verimount(args!["status", &mnt]).fails_saying("another user has mounted it");
    umount(&mnt);
    mounted.ends_well();
}

/// Whether the kernel tells which connection an open device belongs to, and tells us: root in a container may not see the
/// descriptors of others.
fn has_connection(pid: u32) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo"));
    descriptors
        .into_iter()
        .flatten()
        .flatten()
        .any(|descriptor| {
            fs::read_to_string(descriptor.path())
                .is_ok_and(|info| info.contains("fuse_connection:"))
        })
}

/// A daemon that is stopped.
fn stopped(image: &Path, mnt: &Path) -> Daemon {
    let mounted = Daemon::mount(image, mnt, &["--unpinned"]);
    mounted.signal(Signal::STOP);
    // Each of its threads: one that is not yet might take the question.
    let is_stopped = |thread: io::Result<DirEntry>| {
        let stat = fs::read_to_string(thread.unwrap().path().join("stat"));
        stat.unwrap().contains(") T ")
    };
    let threads = || fs::read_dir(format!("/proc/{}/task", mounted.pid())).unwrap();
    eventually("it is stopped", || threads().all(is_stopped));
    mounted
}

#[test]
fn commands_do_not_wait_for_a_stopped_mount() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mounted = stopped(&image, &mnt);
    let pid = mounted.pid();
    for command in ["status", "umount"] {
        let refused = verimount(args![command, &mnt]);
        refused.fails_saying("has not answered");
        refused.fails_saying(&format!("kill -CONT {pid}"));
    }
    verimount(["doctor"]).succeeds();
    verimount(args!["umount --lazy", &mnt]).succeeds_quietly();
    mounted.signal(Signal::CONT);
    mounted.ends_well();
}

/// As when a signal has detached it.
#[test]
fn a_mount_that_umount_has_detached_is_ending() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    let used = File::open(&mnt).unwrap();
    verimount(args!["umount --lazy", &mnt]).succeeds_quietly();
    let ending = listed(&mnt).unwrap();
    assert_eq!(ending["state"], "ending");
    assert_eq!(ending["pid"], mounted.pid());
    drop(used);
    mounted.ends_well();
    assert!(listed(&mnt).is_none());
}

/// A mount that does not answer does not hide the others.
#[test]
fn a_stopped_mount_is_listed() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mounted = stopped(&image, &mnt);
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
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mut killed = Daemon::mount(&image, &mnt, &["--unpinned"]);
    killed.signal(Signal::KILL);
    killed.wait();
    let dead = listed(&mnt).unwrap();
    assert!(dead["kind"].is_null());
    assert_eq!(dead["state"], "dead");
    let what_to_do = "mount again, or remove it with verimount umount";
    assert!(
        dead["error"].as_str().unwrap().contains(what_to_do),
        "{dead}"
    );
    let list = verimount(["list"]);
    let row = list
        .succeeds_quietly()
        .text()
        .lines()
        .find(|row| row.starts_with("dead ") && row.contains(mnt.to_str().unwrap()));
    assert!(row.is_some(), "{list:?}");
    list.notes(what_to_do);
    verimount(args!["status", &mnt]).fails_saying(what_to_do);
    let metrics = verimount(["status", "--all", "--prometheus"]);
    let down = format!("verimount_up{{target=\"{}\"}} 0\n", mnt.to_str().unwrap());
    metrics.says(&down);
    verimount(args!["umount", &mnt]).succeeds_quietly();
    assert!(listed(&mnt).is_none());
}
