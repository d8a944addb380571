//! Written files are durable when the command ends: first the content is made durable, then the name.

use crate::prelude::*;

/// The system calls of a command that make content durable or create names, one per line.
fn calls(strace: &Path, world: &World, arguments: Vec<OsString>) -> Vec<String> {
    let log = world.unlisted("calls");
    let mut command = Command::new(strace);
    // Only the first thread does these.
    command.args(["-y", "-e"]);
    command.arg("trace=fsync,fdatasync,syncfs,link,linkat,rename,renameat,renameat2");
    command.arg("-o").arg(&log).arg(binary()).args(arguments);
    finish(command).succeeds();
    let log = fs::read_to_string(log).unwrap();
    let done = log.lines().filter(|line| line.ends_with(" = 0"));
    done.map(str::to_owned).collect()
}

/// A file's content is durable before it gets its name; then the name is made durable.
#[track_caller]
fn comes_whole(calls: &[String], path: &Path) {
    let folder = path.parent().unwrap().to_str().unwrap();
    let name = format!("\"{}\"", path.to_str().unwrap());
    let named = |call: &&String| call.contains("link") || call.contains("rename");
    let at = calls
        .iter()
        .position(|call| named(&call) && call.contains(&name))
        .unwrap_or_else(|| panic!("{name} was never given: {calls:#?}"));
    let (before, after) = calls.split_at(at);
    let is_file = |call: &String| call.contains("sync(") && call.contains(&format!("<{folder}/"));
    let is_folder = |call: &String| call.contains("sync(") && call.contains(&format!("<{folder}>"));
    // A temporary name comes between the two.
    let first_name = before.iter().position(|call| named(&call));
    let synced = before
        .iter()
        .rposition(is_file)
        .expect("the file is synced");
    assert!(
        first_name.is_none_or(|at| synced < at || named(&&calls[at])),
        "{calls:#?}"
    );
    assert!(after.iter().any(is_folder), "{name}: {calls:#?}");
}

#[test]
fn names_come_after_content() {
    let strace = needs!(tools::find("strace"));
    let world = World::new();
    let tree = world.directory("tree");
    fs::write(tree.join("file"), noise(100_000, 1)).unwrap();
    let image = world.path("image");
    // As a new file, and in the place of another.
    for _ in 0..2 {
        let calls = calls(&strace, &world, args!["build", &tree, &image]);
        comes_whole(&calls, &image);
    }
    let (data, sidecar) = (world.write("data", "data"), world.path("data.verity"));
    for _ in 0..2 {
        let calls = calls(&strace, &world, args!["seal", &data]);
        comes_whole(&calls, &sidecar);
    }
    let (public, secret) = (world.path("public"), world.path("secret"));
    let calls_of = |arguments| calls(&strace, &world, arguments);
    let made = calls_of(args!["keygen -W", &public, &secret]);
    comes_whole(&made, &public);
    comes_whole(&made, &secret);
    let signed = calls_of(args!["sign", &data, "--key", &secret]);
    comes_whole(&signed, &sidecar);
    let volume = world.path("volume");
    let formatted = calls_of(args!["volume format", &volume, "--size", "8M"]);
    comes_whole(&formatted, &volume);
}

/// A file keeps its inode when its end is changed, and the change is made durable last.
#[test]
fn in_place_changes_are_durable() {
    let strace = needs!(tools::find("strace"));
    let world = World::new();
    let (_, secret) = world.keys("signer");
    let file = world.write("file", noise(300_000, 1));
    let inode = fs::metadata(&file).unwrap().ino();
    for arguments in [
        args!["seal --append", &file],
        args!["sign", &file, "--key", &secret],
    ] {
        let log = world.unlisted("calls");
        let mut command = Command::new(&strace);
        command.args(["-y", "-e", "trace=pwrite64,write,ftruncate,fsync"]);
        command.arg("-o").arg(&log).arg(binary()).args(arguments);
        finish(command).succeeds();
        let log = fs::read_to_string(log).unwrap();
        let path = format!("<{}>", file.to_str().unwrap());
        let last = log.lines().rfind(|line| line.contains(&path)).unwrap();
        assert!(last.contains("fsync("), "{last}");
        assert!(log.lines().filter(|line| line.contains("fsync(")).count() >= 3);
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
    }
}
