//! The NBD server, with real clients.

use super::{MODES, format, json};
use crate::common::latency;
use crate::prelude::*;

/// Serves `vol.img` at `socket`.
#[track_caller]
pub(super) fn serve(world: &World, options: &[&str]) -> Daemon {
    Daemon::nbd(&world.path("vol.img"), &world.path("socket"), options)
}

/// Ends a server, which leaves no socket behind.
#[track_caller]
pub(super) fn end(world: &World, mut served: Daemon) -> String {
    served.signal(Signal::TERM);
    let log = served.exits_well();
    assert!(!world.path("socket").exists());
    log
}

pub(super) fn uri(world: &World) -> String {
    format!("nbd+unix:///?socket={}", text(&world.path("socket")))
}

/// Runs a client; `None`, after a note, if it is not installed.
pub(super) fn client(program: &str, arguments: &[&str]) -> Option<Ended> {
    let mut command = Command::new(tools::find(program)?);
    command.args(arguments);
    Some(finish(command))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn nbdinfo_shows_all_properties() {
    let world = World::new();
    let path = format(&world, &["--sector-size", "1K"]);
    let size = &json(args!["volume info --json", &path], 0)["size"];
    for (options, writable, trims) in [
        (&[][..], true, false),
        (&["--allow-discards"], true, true),
        (&["--mode", "recovery"], false, false),
    ] {
        let served = serve(&world, options);
        let ended = needs!(client("nbdinfo", &["--json", "--no-content", &uri(&world)]));
        let info: Value = ended.succeeds().json();
        let export = &info["exports"][0];
        assert_eq!(&export["export-size"], size);
        assert_eq!(export["block_size_minimum"], 1024);
        assert_eq!(export["block_size_preferred"], 1 << 20);
        assert_eq!(export["block_size_maximum"], 32 << 20);
        assert_eq!(export["is_read_only"], !writable);
        for (what, can) in [
            ("can_flush", true),
            ("can_multi_conn", true),
            ("can_fua", writable),
            ("can_zero", writable),
            ("can_trim", trims),
        ] {
            assert_eq!(export[what], can, "{what} with {options:?}");
        }
        end(&world, served);
    }
}

#[test]
fn nbdcopy_copies_to_and_from_it() {
    for mode in MODES {
        let world = World::new();
        let path = format(&world, &[]);
        let size = json(args!["volume info --json", &path], 0)["size"].as_u64();
        let mut content = noise(5 << 20, 1);
        content.resize(size.unwrap() as usize, 0);
        let from = world.write("from", &content);
        let to = world.path("to");
        let served = serve(&world, &["--mode", mode]);
        let uri = uri(&world);
        let copied = needs!(client("nbdcopy", &["--flush", text(&from), &uri]));
        copied.succeeds();
        client("nbdcopy", &[&uri, text(&to)]).unwrap().succeeds();
        assert!(fs::read(&to).unwrap() == content);
        end(&world, served);
        verimount(args!["volume check", &path]).succeeds_quietly();
        let served = serve(&world, &["--mode", mode]);
        let compare = ["compare", "-f", "raw", "-F", "raw", text(&from), &uri];
        let compared = needs!(client("qemu-img", &compare));
        compared.succeeds();
        end(&world, served);
    }
}

#[test]
fn qemu_converts_to_and_from_it() {
    let world = World::new();
    let path = format(&world, &[]);
    let size = json(args!["volume info --json", &path], 0)["size"].as_u64();
    let mut content = noise(3 << 20, 1);
    content.resize(size.unwrap() as usize, 0);
    let raw = world.write("raw", &content);
    let qcow2 = world.path("qcow2");
    let served = serve(&world, &["--allow-discards"]);
    let uri = uri(&world);
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", text(&raw), &uri];
    let converted = needs!(client("qemu-img", &convert));
    converted.succeeds();
    let convert = ["convert", "-f", "raw", "-O", "qcow2", &uri, text(&qcow2)];
    client("qemu-img", &convert).unwrap().succeeds();
    let compare = [
        "compare",
        "-f",
        "raw",
        "-F",
        "qcow2",
        text(&raw),
        text(&qcow2),
    ];
    client("qemu-img", &compare).unwrap().succeeds();
    end(&world, served);
}

#[test]
fn a_changed_byte_is_noticed() {
    let world = World::new();
    let path = format(&world, &[]);
    let content = noise(4 << 20, 1);
    let from = world.write("from", &content);
    let to = world.path("to");
    let served = serve(&world, &[]);
    let uri = uri(&world);
    let copied = needs!(client("nbdcopy", &[text(&from), &uri]));
    copied.succeeds();
    end(&world, served);
    flip_where(&path, &content[4096..8192]);
    let served = serve(&world, &[]);
    let copied = client("nbdcopy", &[&uri, text(&to)]).unwrap();
    copied.notes("Input/output error");
    let convert = ["convert", "-f", "raw", "-O", "raw", &uri, text(&to)];
    if let Some(converted) = client("qemu-img", &convert) {
        converted.notes("Input/output error");
    }
    // It goes on.
    let info = needs!(client("nbdinfo", &["--size", &uri]));
    info.succeeds();
    let log = end(&world, served);
    let line = log.lines().find(|line| line.contains("ERROR")).unwrap();
    for word in ["sector=8 ", "expected=", "actual="] {
        assert!(line.contains(word), "{line}");
    }
}

#[test]
fn a_killed_server_loses_nothing_that_was_flushed() {
    let world = World::new();
    format(&world, &[]);
    let content = noise(4 << 20, 1);
    let from = world.write("from", &content);
    let to = world.path("to");
    let mut killed = serve(&world, &[]);
    let uri = uri(&world);
    let copied = needs!(client("nbdcopy", &["--flush", text(&from), &uri]));
    copied.succeeds();
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().signal(), Some(Signal::KILL.as_raw()));
    // The socket that it has left makes way.
    assert!(world.path("socket").exists());
    let served = serve(&world, &[]);
    client("nbdcopy", &[&uri, text(&to)]).unwrap().succeeds();
    assert!(fs::read(&to).unwrap()[..content.len()] == content);
    end(&world, served);
}

#[test]
fn processors_are_kept_awake_or_the_reason_is_given() {
    let world = World::new();
    let path = format(&world, &[]);
    if !latency::can_be_set() {
        let serve = args![
            "volume serve",
            &path,
            "--socket",
            world.path("socket"),
            "--awake"
        ];
        verimount(serve).fails_saying(latency::LIMIT);
        return;
    }
    needs!(tools::find("nbdcopy"));
    needs!(latency::is_ours_or_skip());
    let to = world.path("to");
    let served = serve(&world, &["--awake"]);
    latency::is_none_while(|| {
        let copied = client("nbdcopy", &[&uri(&world), text(&to)]);
        copied.unwrap().succeeds();
    });
    end(&world, served);
}

#[test]
fn a_socket_that_is_in_use() {
    let world = World::new();
    let path = format(&world, &[]);
    let served = serve(&world, &[]);
    let socket = world.path("socket");
    for foreground in [true, false] {
        let mut again = args!["volume serve", &path, "--socket", &socket];
        again.extend(foreground.then(|| "--foreground".into()));
        verimount(again).fails_saying("socket: Address already in use");
    }
    assert!(socket.exists());
    end(&world, served);
    let file = world.write("file", "content");
    world.unchanged_by(|| {
        verimount(args!["volume serve", &path, "--socket", &file])
            .fails_saying("file: Address already in use");
    });
}
