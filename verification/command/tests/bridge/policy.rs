//! Each open is decided by the present rules.

use std::os::fd::AsRawFd;

use rustix::fs::openat;

use super::{mount_by, passes_through_or_skip, status};
use crate::prelude::*;

/// How many opens of each kind a mount counts: passed through, relayed, denied, audited.
fn opens(directory: &Path) -> [u64; 4] {
    let status = status(directory);
    ["passthrough", "relay", "denied", "audited"]
        .map(|kind| status["opens"][kind].as_u64().unwrap())
}

/// How an open changes these counts.
#[track_caller]
fn counted(mounted: &Daemon, open: impl FnOnce()) -> [u64; 4] {
    let before = opens(mounted.directory());
    open();
    let after = opens(mounted.directory());
    std::array::from_fn(|kind| after[kind] - before[kind])
}

const DENIED: [u64; 4] = [0, 0, 1, 0];
const PASSED: [u64; 4] = [1, 0, 0, 0];
const RELAYED: [u64; 4] = [0, 1, 0, 0];

fn read(path: &Path) {
    fs::read(path).unwrap();
}

fn is_denied(path: &Path) {
    assert_eq!(error_of(File::open(path)), Errno::ACCESS);
}

#[test]
fn the_first_rule_that_matches_decides() {
    let world = needs!(World::with_source());
    let src = world.path("src");
    fs::create_dir_all(src.join("deep/er")).unwrap();
    for (name, content) in [
        ("secret.key", "key"),
        ("deep/er/secret.key", "key"),
        ("program", "#!/bin/sh\n"),
        ("small", "s"),
        ("large", &"l".repeat(5000)),
    ] {
        fs::write(src.join(name), content).unwrap();
    }
    fs::write(src.join("marked"), "m".repeat(5000)).unwrap();
    let marked = rustix::fs::setxattr(
        src.join("marked"),
        "user.kind",
        b"secret",
        XattrFlags::CREATE,
    );
    let mounted = mount_by(
        &world,
        r#"
        [[rule]]
        action = "deny"
        path = "**/*.key"
        [[rule]]
        name = "programs"
        action = "audit"
        magic = { text = "\#!" }
        [[rule]]
        action = "deny"
        xattr = { name = "user.kind", equals = "secret" }
        [[rule]]
        action = "relay"
        size = "..1K"
        "#
        .replace("\\#", "#")
        .as_str(),
    );
    needs!(passes_through_or_skip(mounted.directory()));
    let count = |name: &str, open: fn(&Path)| counted(&mounted, || open(&mounted.path(name)));
    assert_eq!(count("secret.key", is_denied), DENIED);
    assert_eq!(count("deep/er/secret.key", is_denied), DENIED);
    assert_eq!(count("small", read), RELAYED);
    assert_eq!(count("large", read), PASSED);
    assert_eq!(count("program", read), [0, 1, 0, 1]);
    if marked.is_ok() {
        assert_eq!(count("marked", is_denied), DENIED);
    }
    assert!(mounted.unmount().contains("programs"));
}

#[test]
fn creating_and_truncating_count_as_writing() {
    let world = needs!(World::with_source());
    fs::write(world.path("src/file"), "content").unwrap();
    let mounted = mount_by(&world, "[[rule]]\naction = \"deny\"\naccess = \"write\"\n");
    let (file, new) = (mounted.path("file"), mounted.path("new"));
    let mut options = OpenOptions::new();
    assert_eq!(error_of(options.write(true).open(&file)), Errno::ACCESS);
    assert_eq!(error_of(File::create(&file)), Errno::ACCESS);
    assert_eq!(error_of(File::create(&new)), Errno::ACCESS);
    let truncates = OFlags::TRUNC.bits() as i32;
    let truncated = OpenOptions::new()
        .read(true)
        .custom_flags(truncates)
        .open(&file);
    assert_eq!(error_of(truncated), Errno::ACCESS);
    let truncate = "import os, sys; os.truncate(sys.argv[1], 7)";
    if let Some(truncated) = python(truncate, &[&file]) {
        truncated.notes("PermissionError");
    }
    let nameless = openat(
        CWD,
        mounted.directory(),
        OFlags::TMPFILE | OFlags::RDWR,
        Mode::RWXU,
    );
    assert_eq!(nameless.err(), Some(Errno::ACCESS));
    // What may be read is not opened for more by going back to it.
    let reader = File::open(&file).unwrap();
    let back = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let reopened = OpenOptions::new().write(true).open(back);
    assert_eq!(error_of(reopened), Errno::ACCESS);
    drop(reader);
    assert_eq!(fs::read(&file).unwrap(), b"content");
    assert_eq!(fs::read_dir(world.path("src")).unwrap().count(), 1);
    mounted.unmount();
}

#[test]
fn rules_match_users_and_groups() {
    let world = needs!(World::with_source());
    fs::write(world.path("src/file"), "content").unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let policy = |uid| format!("[[rule]]\naction = \"deny\"\ncaller_uid = {uid}\n");
    let mounted = mount_by(&world, &policy(uid));
    is_denied(&mounted.path("file"));
    mounted.unmount();
    let mounted = mount_by(&world, &policy(uid + 1));
    read(&mounted.path("file"));
    mounted.unmount();
}

/// Files that are open keep their serving mode, even if the rules change.
#[test]
fn the_policy_is_reloaded() {
    let world = needs!(World::with_source());
    fs::write(world.path("src/file"), "content").unwrap();
    let mounted = mount_by(&world, "default = \"relay\"");
    let file = mounted.path("file");
    let mut opened = File::open(&file).unwrap();
    world.write("policy.toml", "default = \"deny\"");
    mounted.signal(Signal::HUP);
    eventually("the policy is read", || File::open(&file).is_err());
    is_denied(&file);
    let mut content = String::new();
    std::io::Read::read_to_string(&mut opened, &mut content).unwrap();
    assert_eq!(content, "content");
    drop(opened);
    // One with a mistake changes nothing, nor does one that is gone.
    for mistake in [Some("default = \"dény\""), None] {
        match mistake {
            Some(text) => drop(world.write("policy.toml", text)),
            None => fs::remove_file(world.path("policy.toml")).unwrap(),
        }
        let said = mounted.log().matches("cannot reload the policy").count();
        mounted.signal(Signal::HUP);
        eventually("it is refused", || {
            mounted.log().matches("cannot reload the policy").count() > said
        });
        is_denied(&file);
    }
    assert!(
        mounted.log().contains("policy.toml:1:11: "),
        "{}",
        mounted.log()
    );
    world.write("policy.toml", "");
    mounted.signal(Signal::HUP);
    eventually("the policy is read", || File::open(&file).is_ok());
    mounted.unmount();
}

/// Without a policy there is nothing to reload. A second signal that asks to end would end it at once.
#[test]
fn without_a_policy_a_hangup_changes_nothing() {
    let world = needs!(World::with_source());
    fs::write(world.path("src/file"), "content").unwrap();
    let mounted = super::mount(&world, &[]);
    let opened = File::open(mounted.path("file")).unwrap();
    mounted.signal(Signal::HUP);
    mounted.signal(Signal::TERM);
    eventually("it is out of sight", || !mounted.path("file").exists());
    drop(opened);
    mounted.ends_well();
}

#[test]
fn mistakes_are_named_with_their_place() {
    let world = needs!(World::with_source());
    for (text, place) in [
        ("default = \"dény\"", "policy.toml:1:11: "),
        (
            "[[rule]]\naction = \"deny\"\nsize = \"1K..x\"",
            "policy.toml:3:8: ",
        ),
        (
            "[[rule]]\naction = \"deny\"\npath = \"[\"",
            "policy.toml:3:8: ",
        ),
        (
            "[[rule]]\naction = \"deny\"\nsise = \"1K..\"",
            "policy.toml:3:1: ",
        ),
        ("[[rule]]\nname = \"x\"", "policy.toml:1:1: "),
        ("[[rule", "policy.toml:1:"),
    ] {
        let policy = world.write("policy.toml", text);
        let (src, mnt) = (world.path("src"), world.path("mnt"));
        for foreground in [true, false] {
            let mut bridge = args!["bridge", &src, &mnt, "--policy", &policy];
            bridge.extend(foreground.then(|| "--foreground".into()));
            verimount(bridge).fails_saying(place);
        }
    }
}

#[track_caller]
fn explained(world: &World, arguments: &[&str]) -> String {
    let ended = verimount(args!["bridge",
        world.path("src"),
        "--policy",
        world.path("policy.toml"); arguments.iter()]);
    ended.succeeds_quietly().text().to_owned()
}

#[test]
fn decisions_are_explained() {
    let world = needs!(World::with_source());
    fs::create_dir(world.path("src/folder")).unwrap();
    fs::write(world.path("src/folder/file"), "content").unwrap();
    world.write(
        "policy.toml",
        "[[rule]]\naction = \"audit\"\n\
         [[rule]]\nname = \"large\"\naction = \"relay\"\nsize = \"1K..\"\n\
         [[rule]]\naction = \"deny\"\naccess = \"write\"\ncaller_uid = 7\ncaller_gid = 8\n",
    );
    let by = ["--uid", "7", "--gid", "8"];
    let read = explained(&world, &["--explain", "folder/file"]);
    let lines: Vec<_> = read.lines().collect();
    assert_eq!(lines.len(), 4, "{read}");
    assert!(lines[0].starts_with("rule 1 (line 1)"), "{read}");
    assert!(
        lines[1].starts_with("rule 2 (line 3) \"large\" does not match: "),
        "{read}"
    );
    assert!(lines[1].contains('7'), "{read}");
    assert!(
        lines[2].starts_with("rule 3 (line 7) does not match: "),
        "{read}"
    );
    assert_eq!(lines[3], "passthrough");
    let write = ["--explain", "./folder/file", "--write"];
    let others = explained(&world, &write);
    assert!(others.ends_with("passthrough\n"), "{others}");
    let denied = "rule 3 (line 7) decides\ndeny\n";
    let written = explained(&world, &[&write[..], &by].concat());
    assert!(written.ends_with(denied), "{written}");
    // A new file belongs to whoever creates it, and is empty.
    let create = ["--explain", "folder/new", "--write"];
    let created = explained(&world, &[&create[..], &by].concat());
    let end = format!("{denied}The file would be created.\n");
    assert!(created.ends_with(&end), "{created}");
    assert!(!world.path("src/folder/new").exists());
    // Where it is on this machine does as well.
    let path = world.path("src/folder/file");
    assert_eq!(
        explained(&world, &["--explain", path.to_str().unwrap()]),
        read
    );
    for (path, said) in [
        ("missing", "missing: No such file"),
        ("missing/file --write", "missing/file: No such file"),
        ("../policy.toml", "not below"),
        ("/etc/passwd", "not below"),
        ("folder", "not a regular file"),
    ] {
        let policy = world.path("policy.toml");
        let src = world.path("src");
        let mut explain = args!["bridge", &src, "--policy", &policy, "--explain"];
        explain.extend(path.split(' ').map(Into::into));
        verimount(explain).fails_saying(said);
    }
}

/// The bridge needs the content itself, whatever the caller's permissions: also for the user who mounted.
#[test]
fn content_that_a_rule_needs_must_be_readable() {
    if is_root() {
        return;
    }
    let world = needs!(World::with_source());
    let file = world.path("src/file");
    fs::write(&file, "content").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o200);
    fs::set_permissions(&file, mode).unwrap();
    let mounted = mount_by(
        &world,
        "[[rule]]\naction = \"deny\"\nmagic = { text = \"x\" }\n",
    );
    let opened = OpenOptions::new().write(true).open(mounted.path("file"));
    assert_eq!(error_of(opened), Errno::ACCESS);
    mounted.unmount();
}
