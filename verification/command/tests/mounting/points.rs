//! Mount points, and the users who have access.

use rustix::mount::{mount, unmount};

use super::is_empty;
use crate::prelude::*;

#[track_caller]
fn is_refused(world: &World, directory: &Path, words: &str) {
    let image = world.sealed_image("image");
    for foreground in [false, true] {
        let mut mount = args!["mount", &image, directory, "--unpinned"];
        mount.extend(foreground.then(|| "--foreground".into()));
        verimount(mount).fails_saying(words);
    }
}

#[test]
fn only_an_empty_directory_is_accepted() {
    let world = needs!(World::with_mount_point());
    is_refused(&world, &world.path("missing"), "No such file");
    is_refused(&world, &world.path("missing/inside"), "No such file");
    is_refused(&world, &world.write("file", ""), "not a directory");
    let full = world.directory("full");
    fs::write(full.join("hidden"), "").unwrap();
    is_refused(&world, &full, "not empty");
    let dangling = world.path("dangling");
    symlink("nowhere", &dangling).unwrap();
    is_refused(&world, &dangling, "No such file");
}

#[test]
fn a_directory_in_use_as_mount_point_is_refused() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    is_refused(&world, &mnt, "already mounted");
    // The first one is not disturbed.
    assert_eq!(fs::read(mnt.join("hello")).unwrap(), b"Hello, world!\n");
    mounted.unmount();
}

#[test]
fn names_with_special_characters() {
    let world = needs!(World::with_mount_point());
    for name in [
        "a b",
        "tab\there",
        "line\nbreak",
        "back\\slash",
        "comma,ro",
        "\u{e9}",
        "-o",
    ] {
        let directory = world.directory(name);
        let image = world.sealed_image(&format!("{name}.img"));
        let mounted = Daemon::mount(&image, &directory, &["--unpinned"]);
        assert_eq!(
            fs::read(directory.join("hello")).unwrap(),
            b"Hello, world!\n"
        );
        let again = verimount(args!["mount", &image, "--unpinned", "--", &directory]);
        again.fails_saying("already mounted");
        let status = verimount(args!["status --", &directory]);
        status.succeeds_quietly();
        umount(&directory);
        mounted.ends_well();
    }
}

/// The options of the mount on a directory: of the mount and of the file system.
fn mount_options(directory: &Path) -> String {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let wanted = directory.to_str().unwrap();
    let line = table
        .lines()
        .find(|line| line.split(' ').nth(4) == Some(wanted));
    line.unwrap_or_else(|| panic!("{wanted} is not mounted"))
        .to_owned()
}

/// A source's name is shown in the mount table; it must not be taken for options.
#[test]
fn a_sources_name_sets_no_options() {
    let world = needs!(World::with_mount_point());
    let mnt = world.path("mnt");
    for name in [
        "x,suid,dev,rw,allow_other",
        "x\\,suid,dev",
        "x,fd=0",
        "x,fsname=other",
        "x,user_id=0",
    ] {
        let image = world.sealed_image(name);
        let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
        let line = mount_options(&mnt);
        let fields: Vec<_> = line.split(' ').collect();
        let options: Vec<_> = fields[5].split(',').collect();
        for option in ["ro", "nosuid", "nodev"] {
            assert!(options.contains(&option), "no {option}: {line}");
        }
        let super_options: Vec<_> = fields.last().unwrap().split(',').collect();
        assert!(!super_options.contains(&"allow_other"), "{line}");
        assert!(super_options.contains(&"default_permissions"), "{line}");
        assert!(fields.contains(&"fuse.verimount"), "{line}");
        let user = format!("user_id={}", rustix::process::geteuid().as_raw());
        assert!(super_options.contains(&&*user), "{line}");
        mounted.unmount();
    }
}

/// Root could unmount anything, but `verimount umount` must not.
#[test]
fn only_our_own_mounts_are_unmounted() {
    let world = needs!(World::with_mount_point());
    if !is_root() {
        verimount(args!["umount /proc"]).fails_saying("has type proc");
        return;
    }
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    // On top of ours, too.
    mount("tmpfs", &mnt, "tmpfs", MountFlags::empty(), None).unwrap();
    for lazy in [&["--lazy"][..], &[]] {
        let umount = args!["umount", &mnt; lazy.iter()];
        verimount(umount).fails_saying("has type tmpfs");
        assert!(is_empty(&mnt), "the mount below can be seen");
    }
    unmount(&mnt, UnmountFlags::empty()).unwrap();
    umount(&mnt);
    mounted.ends_well();
}

/// An earlier mount on the same directory is visible again afterwards, and stays.
#[test]
fn a_mount_below_stays() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    mount("tmpfs", &mnt, "tmpfs", MountFlags::empty(), None).unwrap();
    for signalled in [false, true] {
        let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
        if signalled {
            mounted.signal(Signal::TERM);
            mounted.ends_well();
        } else {
            drop(mounted.unmount());
        }
        assert!(mount_options(&mnt).contains(" tmpfs "));
    }
    unmount(&mnt, UnmountFlags::empty()).unwrap();
}

#[test]
fn a_directory_is_no_image() {
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    verimount(args!["mount", &tree, world.path("mnt"), "--unpinned"])
        .fails_saying("verimount build");
}

#[test]
fn a_mount_is_unmounted_through_a_link_and_by_its_other_name() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let link = world.path("link");
    symlink(&mnt, &link).unwrap();
    for command in ["umount", "unmount"] {
        let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
        unless_busy(|| verimount(args![command, &link])).succeeds_quietly();
        mounted.ends_well();
    }
}

#[test]
fn a_link_to_a_directory_is_followed() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let link = world.path("link");
    symlink("mnt", &link).unwrap();
    let mounted = Daemon::mount(&image, &link, &["--unpinned"]);
    assert_eq!(
        fs::read(world.path("mnt/hello")).unwrap(),
        b"Hello, world!\n"
    );
    umount(&world.path("mnt"));
    mounted.ends_well();
}

/// Both the image and the mount point are found from where the command is run, although the daemon
/// leaves that directory.
#[test]
fn relative_paths() {
    let world = needs!(World::with_mount_point());
    let image = world.image_with_sidecar("image");
    assert!(image.exists());
    let mut command: Command = User::Current.command();
    command.args(["mount", "image", "mnt", "--unpinned"]);
    command.current_dir(world.root());
    finish(command).succeeds();
    let hello = fs::read(world.path("mnt/hello"));
    let names = fs::read_dir(world.path("mnt")).map(Iterator::count);
    umount(&world.path("mnt"));
    assert_eq!(hello.unwrap(), b"Hello, world!\n");
    assert_eq!(names.unwrap(), 2);
}

/// Reads a file as `nobody`.
fn nobody_reads(world: &World, path: PathBuf) -> Option<Vec<u8>> {
    let user = User::ordinary(world);
    let mut cat = user.program(Path::new("cat"));
    let output = cat.arg(path).output().unwrap();
    output.status.success().then_some(output.stdout)
}

#[test]
fn other_users_need_allow_other() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    for (options, expected) in [
        (&["--unpinned"][..], None),
        (
            &["--unpinned", "--allow-other"],
            Some(&b"Hello, world!\n"[..]),
        ),
    ] {
        let mounted = Daemon::mount(&image, &mnt, options);
        let seen = nobody_reads(&world, mnt.join("hello"));
        assert_eq!(seen.as_deref(), expected);
        mounted.unmount();
    }
}

/// The system's administrator decides whether ordinary users may.
#[test]
fn allow_other_may_need_permission() {
    if is_root() {
        return;
    }
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let config = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    let allowed = config.lines().any(|line| line.trim() == "user_allow_other");
    let mount = args!["mount", &image, &mnt, "--unpinned", "--allow-other"];
    if allowed {
        let _mounted = Background::mount(&image, &mnt, &["--unpinned", "--allow-other"]);
        assert!(!is_empty(&mnt));
    } else {
        verimount(mount).fails_saying("user_allow_other");
        assert!(is_empty(&mnt));
    }
}
