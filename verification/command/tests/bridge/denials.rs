//! What is logged of denials, and denials by a policy that was reloaded.

use super::mount_by;
use crate::prelude::*;

fn mount_for_all(world: &World, policy: &str) -> Daemon {
    let policy = world.write("policy.toml", policy);
    super::mount(
        world,
        &["--allow-other", "--policy", policy.to_str().unwrap()],
    )
}

/// Each with the operation, what it was done to, who did it, and the rule that denies it.
#[test]
fn denials_are_logged() {
    needs!(root_or_skip());
    let world = needs!(World::open_source());
    let mounted = mount_for_all(&world, DENYING_POLICY);
    for (uid, command) in [
        (65534, "cat secrets/key"),
        (0, "ln secrets/key pub/link"),
        (65534, "mv secrets other"),
        (0, "rm -f fixed/file"),
        (65534, "touch fixed/new"),
    ] {
        let ended = shell_as(uid, uid, &[], mounted.directory(), command);
        ended.notes("Permission denied");
    }
    let log = mounted.unmount();
    let line = |parts: &[&str]| {
        let mut lines = log.lines();
        let found = lines.any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{parts:?}: {log}");
    };
    let secrets = "rule 1 (line 3) \\\"secrets\\\"";
    line(&[
        "denied",
        "operation=open",
        "path=secrets/key",
        "uid=65534",
        secrets,
    ]);
    line(&[
        "denied",
        "operation=link",
        "path=secrets/key",
        "to=pub/link",
        "uid=0",
        secrets,
    ]);
    line(&[
        "denied",
        "operation=rename",
        "path=secrets ",
        "to=other",
        "uid=65534",
        "pid=",
    ]);
    line(&["operation=unlink", "path=fixed/file", "rule 2 (line 7)"]);
    line(&["denied", "operation=create", "path=fixed/new"]);
}

/// Who names a file or a rule says nothing else in a line.
#[test]
fn names_make_no_fields_of_the_log() {
    let world = needs!(World::open_source());
    let policy = r#"
        log_denials = true
        [[rule]]
        name = "x uid=4242"
        action = "audit"
        [[rule]]
        action = "deny"
        path = "* access=write*"
    "#;
    let mounted = mount_by(&world, policy);
    fs::write(mounted.path("pub/a access=read uid=4242"), "").unwrap();
    fs::write(mounted.path("a\n\" access=write uid=4242"), "").unwrap_err();
    let log = mounted.unmount();
    let audited = r#" rule="rule 1 (line 3) \"x uid=4242\"" operation=create access=write path="pub/a access=read uid=4242" uid="#;
    assert!(log.contains(audited), "{log}");
    let denied = r#" path="a\\n\" access=write uid=4242" uid="#;
    assert!(log.contains(denied), "{log}");
}

/// Denials are logged only on request, and moves are allowed if no rule denies anything.
#[test]
fn a_reloaded_policy_applies_to_names() {
    let world = needs!(World::open_source());
    let mounted = mount_by(&world, "default = \"relay\"");
    let [key, there] = ["secrets/key", "pub/key"].map(|name| mounted.path(name));
    fs::rename(&key, &there).unwrap();
    fs::rename(&there, &key).unwrap();
    world.write("policy.toml", DENYING_POLICY.replace("true", "false"));
    mounted.signal(Signal::HUP);
    eventually("the policy is read", || fs::read(&key).is_err());
    let moved = fs::rename(&key, &there).unwrap_err();
    assert_eq!(Errno::from_io_error(&moved), Some(Errno::ACCESS));
    assert!(!mounted.unmount().contains("denied"));
}

/// However much another user does, and whoever it is.
#[test]
fn denials_of_one_user_do_not_hide_those_of_others() {
    needs!(root_or_skip());
    let world = needs!(World::open_source());
    let policy = "
        log_denials = true
        [[rule]]
        action = \"audit\"
        path = \"pub/**\"
        [[rule]]
        action = \"deny\"
        path = \"secrets/**\"
        [[rule]]
        action = \"deny\"
        path = \"fixed/**\"
    ";
    let mounted = mount_for_all(&world, policy);
    let by = |uid, script: &str| drop(shell_as(uid, uid, &[], mounted.directory(), script));
    let often = |command: &str| format!("for _ in $(seq 60); do {command} || true; done");
    by(4321, &often("cat secrets/key pub/file"));
    // Neither those of another user, nor those of the same user by another rule.
    by(4322, "cat secrets/key pub/file || true");
    by(4321, "cat fixed/file");
    let log = mounted.unmount();
    let count = |parts: &[&str]| {
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        log.lines().filter(has_all).count()
    };
    for (what, rule) in [
        ("denied", "rule 2 (line 6)"),
        ("audited", "rule 1 (line 3)"),
    ] {
        assert_eq!(count(&[what, "uid=4321", rule, "pid="]), 40, "{log}");
        assert_eq!(count(&[what, "uid=4322", rule, "pid="]), 1, "{log}");
        let left_out = ["dropped", "count=20", what, "uid=4321", rule];
        assert_eq!(count(&left_out), 1, "{log}");
    }
    assert_eq!(
        count(&["denied", "uid=4321", "rule 3 (line 9)"]),
        1,
        "{log}"
    );
}
