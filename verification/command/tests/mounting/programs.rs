//! Programs that compare times, owners and permissions are content with an EROFS image.

use rustix::process::{getegid, geteuid};

use crate::common::repository::{git, repository};
use crate::prelude::*;

/// It compiles what has another time than its compiled file says.
#[test]
fn python_uses_its_compiled_files() {
    let python = needs!(tools::find("python3"));
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    fs::create_dir(tree.join("package")).unwrap();
    fs::write(tree.join("package/__init__.py"), "VALUE = 4711\n").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(arguments).current_dir(world.root());
        finish(command)
    };
    run(&["-m", "compileall", "-q", "tree"]).succeeds();
    verimount(args!["build --format erofs", &tree, world.path("image")]).succeeds();
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), &["--unpinned"]);
    let program = "import sys; sys.path.insert(0, 'mnt'); import package; print(package.VALUE)";
    let imported = run(&["-v", "-c", program]);
    assert_eq!(imported.succeeds().text(), "4711\n");
    let says = |what: &str| {
        let mut lines = imported.stderr.lines();
        lines.any(|line| line.contains("package/__pycache__") && line.contains(what))
    };
    assert!(says(" matches ") && !says("stale"), "{}", imported.stderr);
    mounted.unmount();
}

/// Of somebody else, unless they are mounted as one's own.
#[test]
fn git_and_ssh_use_what_is_mounted_as_ones_own() {
    needs!(tools::find("git"));
    let keygen = needs!(tools::find("ssh-keygen"));
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    repository(&world, &tree.join("bare"));
    let mut make_key = Command::new(&keygen);
    make_key.args(["-q", "-t", "ed25519", "-N", "", "-C", "key", "-f"]);
    make_key.arg(tree.join("key"));
    finish(make_key).succeeds();
    let public = fs::read_to_string(tree.join("key.pub")).unwrap();
    let (image, mnt) = (world.path("image"), world.path("mnt"));
    verimount(args![
        "build --format erofs --owner 4711:4711",
        &tree,
        &image
    ])
    .succeeds();
    let show_public = || {
        let mut show = Command::new(&keygen);
        show.args(["-y", "-f"]).arg(mnt.join("key"));
        finish(show)
    };
    let (uid, gid) = (geteuid().to_string(), getegid().to_string());
    let options = ["--unpinned", "--uid", &uid, "--gid", &gid];
    let mounted = Daemon::mount(&image, &mnt, &options);
    git(&world, &["clone", "--quiet", "mnt/bare", "clone"]).succeeds();
    assert_eq!(fs::read(world.path("clone/file")).unwrap(), b"content");
    assert_eq!(show_public().succeeds().text(), public);
    mounted.unmount();
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    let refused = git(&world, &["clone", "--quiet", "mnt/bare", "again"]);
    refused.notes("dubious ownership");
    if !geteuid().is_root() {
        assert!(!show_public().status.success());
    }
    mounted.unmount();
}
