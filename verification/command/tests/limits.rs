//! With low system limits, the work is done with fewer resources, or fails with one line.

use crate::prelude::*;

/// A dedicated user id, so that processes of others do not count.
const USER: &str = "64321";

fn limited(limit: &str, program: PathBuf, arguments: Vec<OsString>) -> Command {
    let prlimit = tools::find("prlimit").expect("util-linux is part of every system");
    let mut command = Command::new(prlimit);
    command.arg(limit).arg(program).args(arguments);
    command
}

/// Asserts success, or a failure with a reason; returns whether it succeeded.
#[track_caller]
fn is_orderly(ended: &Ended) -> bool {
    if ended.status.success() {
        return true;
    }
    ended.fails();
    false
}

/// Few directories are open at a time, however deep a tree is.
#[test]
fn a_deep_tree_needs_few_open_files() {
    let world = World::new();
    let tree = world.directory("tree");
    let deep: PathBuf = [tree.as_path()]
        .into_iter()
        .chain([Path::new("d"); 100])
        .collect();
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("file"), "content").unwrap();
    let arguments = args!["build", &tree, world.path("image")];
    finish(limited("--nofile=24", binary(), arguments)).succeeds();
}

#[test]
fn few_open_files() {
    let world = World::new();
    let file = world.write("file", noise(3 << 20, 1));
    let image = world.sealed_image("image");
    let mnt = world.directory("mnt");
    let work = [
        args!["digest", &file],
        args!["seal", &file],
        args!["ls", &image],
        args!["verify", &image],
        args!["extract", &image, world.path("copy")],
        args!["mount", &image, &mnt, "--unpinned"],
    ];
    for arguments in work {
        let mut done = 0;
        for limit in 3..32 {
            if arguments[0] == "mount" && !fuse_or_skip() {
                break;
            }
            let limit = format!("--nofile={limit}");
            let ended = finish(limited(&limit, binary(), arguments.clone()));
            // With this few, the program is not even loaded.
            let loaded = !ended
                .stderr
                .contains("error while loading shared libraries");
            let is_done = loaded && is_orderly(&ended);
            done += usize::from(is_done);
            if !is_done {
                // It would be a dead mount.
                assert_eq!(fs::read_dir(&mnt).unwrap().count(), 0, "{ended:?}");
            }
            unmount_lazily(&mnt);
            let _ = fs::remove_dir_all(world.path("copy"));
        }
        assert!(done > 0, "{arguments:?}");
    }
}

#[test]
fn few_processes() {
    needs!(root_or_skip());
    let world = World::new();
    let file = world.write("file", noise(3 << 20, 1));
    let image = world.sealed_image("image");
    let mnt = world.directory("mnt");
    std::os::unix::fs::chown(&mnt, USER.parse().ok(), USER.parse().ok()).unwrap();
    let setpriv = tools::find("setpriv").expect("util-linux is part of every system");
    for arguments in [
        args!["digest", &file],
        args!["verify", &image],
        args!["mount", &image, &mnt, "--unpinned"],
    ] {
        if arguments[0] == "mount" && !fuse_or_skip() {
            break;
        }
        for limit in 1..8 {
            let program = reachable_copy(&binary(), &world);
            let limited = limited(&format!("--nproc={limit}"), program, arguments.clone());
            let mut command = Command::new(&setpriv);
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]);
            command.arg(limited.get_program()).args(limited.get_args());
            let done = is_orderly(&finish(command));
            // What is only quicker with more threads is done with one.
            assert!(done || arguments[0] == "mount", "{arguments:?}");
            unmount_lazily(&mnt);
        }
    }
}
