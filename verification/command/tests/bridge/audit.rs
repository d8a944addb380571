//! Records of decisions, before what was decided goes on.

use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::Value;

use super::mount;
use crate::prelude::*;

/// Records opens of all but what is denied.
const POLICY: &str = r#"
    [[rule]]
    name = "secrets"
    action = "deny"
    path = "secrets/**"
    [[rule]]
    action = "audit"
"#;

/// Mirrors `src` on `mnt` with records for `target`.
fn mount_recorded(world: &World, target: &Path, options: &[&str]) -> Daemon {
    let policy = world.write("policy.toml", POLICY);
    let audit = [
        "--policy",
        policy.to_str().unwrap(),
        "--audit",
        target.to_str().unwrap(),
    ];
    mount(world, &[&audit, options].concat())
}

/// The records in a file, each of which is a line of JSON.
fn records(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn each_decision_has_a_record() {
    let world = needs!(World::open_source());
    for options in [&[][..], &["--audit-sync"], &["--audit-full", "drop"]] {
        let log = world.path("audit.log");
        let mounted = mount_recorded(&world, &log, options);
        fs::read(mounted.path("pub/file")).unwrap();
        fs::write(mounted.path("pub/a\n\"b"), "").unwrap();
        fs::read(mounted.path("secrets/key")).unwrap_err();
        fs::rename(mounted.path("secrets/key"), mounted.path("pub/key")).unwrap_err();
        mounted.unmount();
        let records = records(&log);
        let told: Vec<[&str; 6]> = records
            .iter()
            .map(|record| {
                ["kind", "operation", "access", "path", "to", "result"]
                    .map(|field| record[field].as_str().unwrap_or("-"))
            })
            .collect();
        let expected = [
            ["audit", "open", "read", "pub/file", "-"],
            ["audit", "create", "write", "pub/a\\n\"b", "-"],
            ["denial", "open", "read", "secrets/key", "-"],
            ["denial", "rename", "-", "secrets/key", "pub/key"],
        ];
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for (told, expected) in told.iter().zip(expected) {
            assert_eq!(told[..5], expected);
            assert_eq!(told[5] == "deny", expected[0] == "denial");
        }
        let record = &records[2];
        assert_eq!(record["mount"], world.path("mnt").to_str().unwrap());
        assert_eq!(record["rule"]["name"], "secrets");
        assert_eq!(record["lost"], 0);
        assert_eq!(
            record["pid"],
            rustix::thread::gettid().as_raw_nonzero().get()
        );
        fs::remove_file(&log).unwrap();
        fs::remove_file(world.path("src/pub/a\n\"b")).unwrap();
    }
}

#[test]
fn a_log_that_was_moved_is_opened_again() {
    let world = needs!(World::open_source());
    let log = world.path("audit.log");
    let mounted = mount_recorded(&world, &log, &[]);
    let open = || fs::read(mounted.path("pub/file")).unwrap();
    open();
    fs::rename(&log, world.path("old.log")).unwrap();
    mounted.signal(Signal::HUP);
    let mut opened = 1;
    eventually("there is a new one", || {
        open();
        opened += 1;
        log.exists()
    });
    mounted.unmount();
    let all = records(&world.path("old.log")).len() + records(&log).len();
    assert_eq!(all, opened);
}

/// While nobody reads what is recorded.
#[test]
fn an_open_waits_for_its_record_and_can_be_killed() {
    let world = needs!(World::open_source());
    let socket = world.path("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let mounted = mount_recorded(&world, &socket, &[]);
    let (reader, _) = listener.accept().unwrap();
    let file = mounted.path("pub/file");
    let cat = || {
        let mut cat = Command::new("cat");
        cat.arg(&file).stdout(Stdio::null()).spawn().unwrap()
    };
    let mut filler = Command::new("sh");
    filler
        .args(["-c", "while :; do read -r x < \"$0\"; done"])
        .arg(&file);
    let mut filler = filler.spawn().unwrap();
    let waiting = || {
        let status = super::status(mounted.directory());
        status["audit"]["waiting"].as_u64().unwrap()
    };
    eventually("the socket is full", || waiting() == 1);
    let [mut killed, mut patient] = [cat(), cat()];
    eventually("they wait", || waiting() == 3);
    // Others do not.
    fs::metadata(mounted.path("secrets")).unwrap();
    killed.kill().unwrap();
    eventually("it is gone", || killed.try_wait().unwrap().is_some());
    eventually("it waits no longer", || waiting() == 2);
    filler.kill().unwrap();
    let read = thread::spawn(move || lines_of(&reader));
    assert!(patient.wait().unwrap().success());
    filler.wait().unwrap();
    mounted.unmount();
    assert!(read.join().unwrap() > 100);
}

/// How many records came through a socket, until its end.
fn lines_of(mut reader: &UnixStream) -> usize {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let lines = text.lines().map(serde_json::from_str::<Value>);
    lines.map(Result::unwrap).count()
}

#[test]
fn wrong_targets_are_refused() {
    let world = needs!(World::open_source());
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    let bridge = |target: &Path| args!["bridge", &src, &mnt, "--audit", target];
    for inside in ["src/log", "src/pub/log", "mnt/log"] {
        verimount(bridge(&world.path(inside))).fails_saying("the audit log must be where");
        assert!(!world.path(inside).exists());
    }
    verimount(bridge(&world.path("missing/log"))).fails_saying("missing/log: No such file");
    verimount(bridge(Path::new("/dev/null"))).fails_saying("neither a regular file nor a socket");
    let socket = world.path("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut sync = bridge(&socket);
    sync.push("--audit-sync".into());
    verimount(sync).fails_saying("--audit-sync needs a file");
    verimount(args!["bridge", &src, &mnt, "--audit-sync"]).is_wrong_usage();
    verimount(args!["bridge", &src, &mnt, "--audit-full", "drop"]).is_wrong_usage();
}
