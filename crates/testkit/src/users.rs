//! The users who run tests and programs.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::geteuid;
use verimount_testenv::{AS_NOBODY, SKIPS, skip, tools};

use crate::{Ended, World, finish, fuse_or_skip};

/// The user and group `nobody`.
pub const NOBODY: &str = "65534";

/// Whether the tests run as root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Whether the tests run as root; prints a note that work is skipped if not.
pub fn root_or_skip() -> bool {
    if !is_root() {
        skip("only root can do that");
    }
    is_root()
}

/// Whether the tests run as root on a kernel that passes opens of files through (Linux 6.9); prints a note that work is
/// skipped if not.
pub fn root_passes_through_or_skip() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let numbers = release.split(|other: char| !other.is_ascii_digit());
    let numbers: Vec<u32> = numbers.map_while(|number| number.parse().ok()).collect();
    let passes = numbers >= vec![6, 9];
    if !passes {
        skip("this kernel does not pass files through");
    }
    passes && root_or_skip()
}

/// A program that root runs as `nobody`.
pub fn as_nobody(program: &Path) -> Command {
    let setpriv = tools::find("setpriv").expect("util-linux is part of every system");
    let mut command = Command::new(setpriv);
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]);
    command.arg(program);
    command
}

/// The program itself if everybody can run it where it is, else a copy in `world`.
pub fn reachable_copy(program: &Path, world: &World) -> PathBuf {
    let open_to_all = |path: &Path| {
        fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o005 == 0o005)
    };
    if program.ancestors().all(open_to_all) {
        return program.to_owned();
    }
    let copy = world.unlisted(program.file_name().unwrap().to_str().unwrap());
    if !copy.exists() {
        // By a process of its own: one that is started here meanwhile would have it open for writing, too, and so long nobody
        // could run it.
        let mut command = Command::new("cp");
        let copied = command.arg("--preserve=mode").args([program, &copy]);
        assert!(copied.status().unwrap().success(), "copying {program:?}");
    }
    copy
}

/// Runs tests of this program again as `nobody`, with a home for their files. Does nothing, after a note, if nobody can
/// mount here.
///
/// # Panics
/// If they fail, or if there are none.
#[track_caller]
pub fn pass_as_nobody(arguments: &[&str], prepare: impl FnOnce(&mut Command, &World)) {
    if !root_or_skip() || !fuse_or_skip() || tools::find("fusermount3").is_none() {
        return;
    }
    // As udev sets it; a machine without udev leaves it to root.
    fs::set_permissions("/dev/fuse", fs::Permissions::from_mode(0o666)).unwrap();
    let world = World::new();
    let home = world.directory("home");
    let id = NOBODY.parse().ok();
    chown(&home, id, id).unwrap();
    let mut command = as_nobody(&reachable_copy(&env::current_exe().unwrap(), &world));
    command.args(arguments).args(["--test-threads", "2"]);
    command.current_dir(&home).env("TMPDIR", &home);
    // All of them are run as root, too. What is skipped here only is what needs root.
    command.env_remove(SKIPS).stdin(Stdio::null());
    prepare(&mut command, &world);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{said}");
    let passed = text.split("test result: ok. ").nth(1).unwrap();
    assert!(!passed.starts_with("0 "), "{text}");
}

/// Runs tests of a library again as `nobody`, only when [`AS_NOBODY`] is set: it takes as long as all of these tests.
#[track_caller]
pub fn pass_again_as_nobody(arguments: &[&str]) {
    match env::var_os(AS_NOBODY) {
        Some(_) => pass_as_nobody(arguments, |_, _| ()),
        None => skip(format_args!("{AS_NOBODY} is not set")),
    }
}

/// Runs a shell script in a directory, as a user with these ids and supplementary groups.
pub fn shell_as(uid: u32, gid: u32, groups: &[u32], directory: &Path, script: &str) -> Ended {
    let setpriv = tools::find("setpriv").expect("util-linux is part of every system");
    let mut command = Command::new(setpriv);
    command
        .arg(format!("--reuid={uid}"))
        .arg(format!("--regid={gid}"));
    match groups {
        [] => command.arg("--clear-groups"),
        groups => {
            let groups: Vec<_> = groups.iter().map(u32::to_string).collect();
            command.arg("--groups").arg(groups.join(","))
        }
    };
    command
        .args(["--", "sh", "-ec", script])
        .current_dir(directory);
    finish(command)
}
