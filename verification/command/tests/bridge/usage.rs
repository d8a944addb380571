//! Wrong usage and wrong paths, with their messages.

use super::mount;
use crate::common::latency;
use crate::prelude::*;

#[test]
fn wrong_usage() {
    for arguments in [
        args!["bridge"],
        args!["bridge src"],
        args!["bridge src mnt other"],
        args!["bridge src mnt --passthrough always"],
        args!["bridge src mnt --cache some"],
        args!["bridge src mnt --threads 0"],
        args!["bridge src mnt --explain file"],
        args!["bridge src mnt --write"],
        args!["bridge src mnt --uid 1"],
        args!["bridge src mnt --digest sha256:00"],
        args!["bridge src mnt --no-xattr --allow-other"],
    ] {
        verimount(arguments).is_wrong_usage();
    }
}

#[test]
fn wrong_paths() {
    let world = needs!(World::with_source());
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    let file = world.write("file", "");
    let missing = world.path("missing");
    let full = world.directory("full");
    fs::write(full.join("file"), "").unwrap();
    for (source, directory, said) in [
        (&missing, &mnt, "missing: No such file"),
        (&file, &mnt, "file: Not a directory"),
        (&src, &missing, "missing: No such file"),
        (&src, &file, "not a directory"),
        (&src, &full, "not empty"),
    ] {
        for foreground in [false, true] {
            let mut bridge = args!["bridge", source, directory];
            bridge.extend(foreground.then(|| "--foreground".into()));
            verimount(bridge).fails_saying(said);
        }
    }
    let bridge = args!["bridge", &src, &mnt, "--policy", &missing];
    verimount(bridge).fails_saying("missing: No such file");
    verimount(args!["bridge", &src, &mnt, "--policy", &src]).fails_saying("src: Is a directory");
}

#[test]
fn a_directory_in_use_as_mount_point_is_refused() {
    let world = needs!(World::with_source());
    let mounted = mount(&world, &[]);
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    verimount(args!["bridge", &src, &mnt]).fails_saying("already mounted");
    mounted.unmount();
}

#[test]
fn processors_are_kept_awake_or_the_reason_is_given() {
    let world = needs!(World::with_source());
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    fs::write(src.join("file"), "content").unwrap();
    if !latency::can_be_set() {
        verimount(args!["bridge", &src, &mnt, "--awake"]).fails_saying(latency::LIMIT);
        return;
    }
    needs!(latency::is_ours_or_skip());
    let mounted = mount(&world, &["--awake", "--cache", "strict"]);
    latency::is_none_while(|| assert_eq!(fs::read(mnt.join("file")).unwrap(), b"content"));
    mounted.unmount();
}

/// A mount below its own source would wait for itself; only root can exclude it from the mirror.
#[test]
fn a_mount_point_in_the_source() {
    let world = needs!(World::with_source());
    let src = world.path("src");
    let inside = src.join("inside");
    fs::create_dir(&inside).unwrap();
    fs::write(src.join("file"), "content").unwrap();
    if is_root() {
        let mounted = crate::common::daemon::Daemon::bridge(&src, &inside, &["--threads", "1"]);
        assert_eq!(fs::read(inside.join("file")).unwrap(), b"content");
        assert_eq!(fs::read_dir(inside.join("inside")).unwrap().count(), 0);
        mounted.unmount();
    } else {
        verimount(args!["bridge", &src, &inside]).fails_saying("only root");
    }
}

/// An empty directory can be mirrored on itself.
#[test]
fn a_source_that_is_the_mount_point() {
    let world = needs!(World::with_source());
    let src = world.path("src");
    let mounted = crate::common::daemon::Daemon::bridge(&src, &src, &["--threads", "1"]);
    fs::write(src.join("file"), "content").unwrap();
    assert_eq!(fs::read(src.join("file")).unwrap(), b"content");
    fs::remove_file(src.join("file")).unwrap();
    mounted.unmount();
}

#[test]
fn passthrough_can_be_required() {
    let world = needs!(World::with_source());
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    let bridge = args!["bridge", &src, &mnt, "--passthrough", "require"];
    if !is_root() {
        verimount(bridge).fails_saying("does not pass files through");
        return;
    }
    let mounted = mount(&world, &[]);
    let passes = super::passes_through_or_skip(&mnt);
    assert_eq!(mounted.log().contains(" passthrough, "), passes);
    mounted.unmount();
    if passes {
        mount(&world, &["--passthrough", "require"]).unmount();
    }
    let relayed = mount(&world, &["--passthrough", "never"]);
    assert!(relayed.log().contains(" relay, "));
    relayed.unmount();
}

/// Two file systems below one directory, as with overlayfs, can use the same inode numbers. In the mirror,
/// which is one device, programs would take two files with one number for hard links.
#[test]
fn inode_numbers_of_several_devices_differ() {
    use std::os::unix::fs::MetadataExt;

    use rustix::mount::{MountFlags, mount as mount_system};
    needs!(root_or_skip());
    let world = needs!(World::with_source());
    let mut lower = Vec::new();
    for name in ["one", "two"] {
        let layer = world.directory(name);
        mount_system("tmpfs", &layer, "tmpfs", MountFlags::empty(), None).unwrap();
        fs::write(layer.join(name), name).unwrap();
        lower.push(layer.to_str().unwrap().to_owned());
    }
    let layers = format!("lowerdir={}", lower.join(":"));
    let layers = std::ffi::CString::new(layers).unwrap();
    let src = world.path("src");
    if mount_system("overlay", &src, "overlay", MountFlags::RDONLY, &*layers).is_err() {
        return skip("there is no overlayfs here");
    }
    let inode = |path: std::path::PathBuf| fs::metadata(path).unwrap().ino();
    if inode(src.join("one")) != inode(src.join("two")) {
        eprintln!("note: the layers do not number their files alike");
    }
    let mounted = mount(&world, &[]);
    assert_ne!(inode(mounted.path("one")), inode(mounted.path("two")));
    assert_eq!(fs::read(mounted.path("two")).unwrap(), b"two");
    mounted.unmount();
}

/// The kernel stacks two file systems if the upper one has declared its depth in the INIT negotiation.
#[test]
fn a_mirror_of_a_mirror_is_passed_through() {
    let world = needs!(World::with_source());
    world.write("src/file", "content");
    let inner = mount(&world, &[]);
    needs!(super::passes_through_or_skip(inner.directory()));
    let directory = world.directory("outer");
    let outer = Daemon::bridge(inner.directory(), &directory, &[]);
    assert_eq!(fs::read(outer.path("file")).unwrap(), b"content");
    let status = super::status(&directory);
    assert_eq!(status["passthrough"]["registered"], 1, "{status}");
    assert_eq!(status["relayed"]["reads"], 0, "{status}");
    // It does not stack three, which is said, and counted, as it is.
    let third = world.directory("third");
    let highest = Daemon::bridge(&directory, &third, &[]);
    let said = highest.log();
    assert!(said.contains(", relay, "), "{said}");
    assert_eq!(fs::read(highest.path("file")).unwrap(), b"content");
    let opens = &super::status(&third)["opens"];
    assert_eq!(
        (&opens["passthrough"], &opens["relay"]),
        (&0.into(), &1.into()),
        "{opens}"
    );
    highest.unmount();
    outer.unmount();
    inner.unmount();
}
