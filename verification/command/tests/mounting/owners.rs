//! Owners and permissions of the files in a mount.

use rustix::{
    fs::listxattr,
    mount::unmount,
    process::{getegid, geteuid},
};

use super::world_with_image;
use crate::common::repository::{git, repository};
use crate::prelude::*;

/// Type and permissions, owner and group.
fn shown(path: &Path) -> (u32, u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.mode(), metadata.uid(), metadata.gid())
}

#[test]
fn files_of_an_image_belong_to_the_user_who_mounts() {
    let world = needs!(world_with_image(&["--format", "romfs"]));
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), &["--unpinned"]);
    let user = (geteuid().as_raw(), getegid().as_raw());
    for name in ["", "bin/program", "data/large", "a link", "fifo"] {
        let (_, uid, gid) = shown(&mounted.path(name));
        assert_eq!((uid, gid), user, "{name}");
    }
    mounted.unmount();
}

#[test]
fn owners_and_permissions_can_be_chosen() {
    let world = needs!(world_with_image(&["--format", "romfs"]));
    let options = [
        "--unpinned",
        "--uid",
        "4711",
        "--gid",
        "4712",
        "--umask",
        "0007",
    ];
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), &options);
    assert_eq!(shown(mounted.directory()), (0o040_770, 4711, 4712));
    // For anybody else but root, that was the last look.
    if is_root() {
        for (name, mode) in [
            ("bin/program", 0o100_770),
            ("data", 0o040_770),
            ("data/large", 0o100_660),
            ("a link", 0o120_777),
            ("fifo", 0o010_660),
        ] {
            let path = mounted.path(name);
            // As a lookup tells it, and as a listing does.
            assert_eq!(shown(&path), (mode, 4711, 4712), "{name}");
            let entries = fs::read_dir(path.parent().unwrap()).unwrap();
            let mut entries = entries.map(Result::unwrap);
            let listed = entries.find(|entry| entry.path() == path).unwrap();
            let listed = listed.metadata().unwrap();
            assert_eq!((listed.mode(), listed.uid()), (mode, 4711), "{name}");
        }
    }
    mounted.unmount();
}

#[test]
fn a_single_file_keeps_what_is_not_chosen() {
    let world = needs!(World::with_mount_point());
    let file = world.write("file", "content");
    verimount(args!["seal", &file]).succeeds_quietly();
    let stored = fs::metadata(&file).unwrap();
    let (own, group) = (stored.uid(), stored.gid());
    for (options, expected) in [
        (&[][..], (0o100_444, own, group)),
        (&["--gid", "4712"], (0o100_444, own, 4712)),
        (&["--umask", "077"], (0o100_600, own, group)),
    ] {
        let options = [&["--unpinned"], options].concat();
        let mounted = Daemon::mount(&file, &world.path("mnt"), &options);
        assert_eq!(shown(&mounted.path("file")), expected, "{options:?}");
        mounted.unmount();
    }
}

/// Owners that the image has are shown unless others are chosen, and its permissions always.
#[test]
fn stored_owners_can_be_replaced_and_permissions_cannot() {
    needs!(tools::find("mkfs.erofs"));
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    fs::write(tree.join("file"), "content").unwrap();
    if is_root() {
        chown(tree.join("file"), Some(4711), Some(4712)).unwrap();
    }
    let stored = shown(&tree.join("file"));
    let image = world.path("image");
    let mut mkfs = Command::new("mkfs.erofs");
    mkfs.arg(&image).arg(&tree);
    finish(mkfs).succeeds();
    verimount(args!["seal", &image]).succeeds_quietly();
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    assert_eq!(shown(&mounted.path("file")), stored);
    mounted.unmount();
    let options = ["--unpinned", "--uid", "4712", "--gid", "4713"];
    let mounted = Daemon::mount(&image, &mnt, &options);
    assert_eq!(shown(mounted.directory()), (0o040_755, 4712, 4713));
    if is_root() {
        assert_eq!(shown(&mounted.path("file")), (stored.0, 4712, 4713));
    }
    mounted.unmount();
    verimount(args!["mount", &image, &mnt, "--unpinned", "--umask", "077"])
        .fails_saying("permissions of their own");
}

#[test]
fn wrong_owners_are_refused() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    for (option, value) in [
        ("--uid", "nobody"),
        ("--gid", "4294967295"),
        ("--umask", "1000"),
    ] {
        verimount(args![
            "mount",
            &image,
            world.path("mnt"),
            "--unpinned",
            option,
            value
        ])
        .is_wrong_usage();
    }
}

/// Git uses no repository of another user.
#[test]
fn git_clones_a_repository_of_the_user_who_mounts() {
    needs!(tools::find("git"));
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    repository(&world, &tree.join("bare"));
    let image = world.path("image");
    verimount(args!["build --format romfs", &tree, &image]).succeeds();
    let mounted = Daemon::mount(&image, &world.path("mnt"), &["--unpinned"]);
    git(&world, &["clone", "--quiet", "mnt/bare", "clone"]).succeeds();
    assert_eq!(fs::read(world.path("clone/file")).unwrap(), b"content");
    mounted.unmount();
    // Of somebody else it is refused, so that the test would notice.
    let options = ["--unpinned", "--uid", "4711"];
    let mounted = Daemon::mount(&image, &world.path("mnt"), &options);
    let refused = git(&world, &["clone", "--quiet", "mnt/bare", "again"]);
    refused.notes("dubious ownership");
    mounted.unmount();
}

/// The exit code of the program that maps them if the kernel cannot.
const CANNOT: i32 = 77;

/// As containers do for a user namespace of their own. The kernel then tells no caller's user.
#[test]
fn owners_can_be_mapped() {
    let python = needs!(tools::find("python3"));
    if !root_or_skip() {
        return;
    }
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    fs::write(tree.join("file"), "content").unwrap();
    let attribute = "trusted.x";
    setxattr(tree.join("file"), attribute, b"1", XattrFlags::empty()).unwrap();
    let digest = verimount(args!["build", &tree, world.path("image")]).digest();
    world.directory("mapped");
    let served = ["--allow-other", "--digest", &digest];
    is_mapped(&world, &python, &served);
    if native_or_skip() {
        is_mapped(&world, &python, &[&["--native"], &served[..]].concat());
    }
}

#[track_caller]
fn is_mapped(world: &World, python: &Path, options: &[&str]) {
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), options);
    let mapped = world.path("mapped");
    let mut idmap = Command::new(python);
    idmap.args(["-c", include_str!("idmap.py")]);
    let ended = finish({
        idmap.arg(mounted.directory()).arg(&mapped);
        idmap
    });
    if ended.status.code() == Some(CANNOT) {
        skip("this kernel cannot show FUSE mounts with other owners");
    } else {
        ended.succeeds();
        let file = mapped.join("file");
        assert_eq!(shown(&file), (0o100_644, 100_000, 100_000));
        assert_eq!(shown(&mounted.path("file")), (0o100_644, 0, 0));
        assert_eq!(fs::read(&file).unwrap(), b"content");
        for path in [&file, &mounted.path("file")] {
            let mut names = [0; 64];
            let len = listxattr(path, &mut names).unwrap();
            assert_eq!(&names[..len], b"trusted.x\0", "{path:?}");
        }
        unmount(&mapped, UnmountFlags::empty()).unwrap();
    }
    mounted.unmount();
}
