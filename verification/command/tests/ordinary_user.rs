//! Mounting does not need root: all tests in `mounting`, `bridge` and `volume` again, as an ordinary user.

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::Stdio,
};

use verimount_testkit::SKIPS;

use crate::common::{
    daemon::fuse_or_skip,
    run::{BINARY, binary},
    user::{User, as_nobody, reachable_copy, root_or_skip},
    world::World,
};

/// Runs tests of this program as `nobody`, with a home for their files.
#[track_caller]
fn pass_as_nobody(names: &[&str]) {
    if !root_or_skip() || !fuse_or_skip() {
        return;
    }
    // As udev sets it; a machine without udev leaves it to root.
    fs::set_permissions("/dev/fuse", Permissions::from_mode(0o666)).unwrap();
    let world = World::new();
    let home = world.directory("home");
    let user = User::ordinary(&world);
    user.own(&home);
    let tests = reachable_copy(&env::current_exe().unwrap(), &world);
    let mut command = as_nobody(&tests);
    command
        .args(names)
        .args(["--test-threads", "2"])
        .current_dir(&home)
        .env("TMPDIR", &home)
        // As every login session has one.
        .env("XDG_RUNTIME_DIR", &home)
        .env(BINARY, reachable_copy(&binary(), &world))
        // All of them are run as root, too. What is skipped here only is what needs root.
        .env_remove(SKIPS)
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let passed = text.split("test result: ok. ").nth(1).unwrap();
    let passed: usize = passed.split(' ').next().unwrap().parse().unwrap();
    assert!(passed >= names.len(), "{text}");
}

#[test]
fn mounts() {
    pass_as_nobody(&["mounting::"]);
}

#[test]
fn bridges() {
    pass_as_nobody(&["bridge::"]);
}

#[test]
fn volumes() {
    pass_as_nobody(&["volume::"]);
}

#[test]
fn changed_bytes() {
    pass_as_nobody(&[
        "flips::fresh::random_bytes_of_a_small_image",
        "flips::fresh::every_byte_of_a_signature",
    ]);
}

#[test]
fn hostile_images() {
    pass_as_nobody(&["hostile::headers", "hostile::indexes"]);
}
