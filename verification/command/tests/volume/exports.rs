//! The status of an export, finding it, and ending it.

use super::{
    clients::{client, end, serve, uri},
    format, json,
};
use crate::prelude::*;

#[test]
fn an_export_reports_its_status() {
    let world = World::new();
    let path = format(&world, &[]);
    let served = serve(&world, &["--mode", "direct"]);
    let socket = world.path("socket");
    let status = json(args!["status --json", &socket], 0);
    assert_eq!(status["version"], 1);
    assert_eq!(status["kind"], "volume");
    assert_eq!(status["mode"], "direct");
    assert_eq!(status["source"], path.to_str().unwrap());
    assert_eq!(status["daemon"]["pid"], served.pid());
    assert_eq!(status["requests"]["write"], 0);
    let shown = verimount(args!["status", &socket]);
    let shown = shown.succeeds_quietly().text();
    assert!(shown.contains("kind           volume\n"), "{shown}");
    let metrics = verimount(args!["status --prometheus", &socket]);
    let metrics = metrics.succeeds_quietly().text();
    assert!(metrics.contains("verimount_failed{target="), "{metrics}");

    let from = world.write("from", noise(1 << 20, 1));
    let copy = ["--flush", from.to_str().unwrap(), &uri(&world)];
    if let Some(copied) = client("nbdcopy", &copy) {
        copied.succeeds();
        let status = json(args!["status --json", &socket], 0);
        assert!(status["requests"]["write"].as_u64() > Some(0), "{status}");
        assert!(status["requests"]["flush"].as_u64() > Some(0), "{status}");
        assert_eq!(status["bytes_written"], 1 << 20);
    }
    end(&world, served);
    verimount(args!["status", &socket]).fails_saying("No such file");
}

/// When `umount` returns, the volume is closed, and can be opened again.
#[test]
fn an_export_is_ended_by_its_socket() {
    for options in [&[][..], &["--lazy"]] {
        let world = World::new();
        let path = format(&world, &[]);
        let mut served = serve(&world, &["--mode", "bitmap"]);
        let socket = world.path("socket");
        verimount(args!["umount", &socket; options.iter()]).succeeds_quietly();
        if options.is_empty() {
            let info = json(args!["volume info --json", &path], 0);
            assert_eq!(info["dirty_bitmap"], false);
            let checked = verimount(args!["volume check", &path]);
            assert_eq!(checked.succeeds_quietly().stderr, "");
        }
        served.exits_well();
        assert!(!socket.exists());
    }
}

#[test]
fn an_export_in_the_background_is_ended() {
    let world = World::new();
    let path = format(&world, &[]);
    let mut command = User::Current.command();
    command.args(["volume", "serve", "vol.img", "--socket", "socket"]);
    command.current_dir(world.root());
    finish(command).succeeds();
    let socket = world.path("socket");
    let status = json(args!["status --json", &socket], 0);
    assert_eq!(status["source"], path.to_str().unwrap());
    verimount(args!["umount", &socket]).succeeds_quietly();
    assert!(!socket.exists());
    verimount(args!["volume check", &path]).succeeds_quietly();
}

/// A socket of another program is recognised, and its process is not ended.
#[test]
fn sockets_of_other_programs() {
    let world = World::new();
    let socket = world.path("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let greets = thread::spawn(move || {
        for _ in 0..2 {
            let (mut client, _) = listener.accept().unwrap();
            client
                .write_all(b"220 this is not a server of disks\r\n")
                .unwrap();
        }
    });
    for command in ["status", "umount"] {
        verimount(args![command, &socket]).fails_saying("is not a verimount export");
    }
    greets.join().unwrap();
    // Nobody listens to it any more.
    verimount(args!["status", &socket]).fails_saying("nobody serves it");
}

/// Ending an export needs the permission to send its process a signal; access to the socket is not enough.
#[test]
fn other_users_cannot_end_it() {
    needs!(root_or_skip());
    let world = World::new();
    format(&world, &[]);
    let served = serve(&world, &["--socket-mode", "666"]);
    let socket = world.path("socket");
    assert_eq!(
        fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
        0o666
    );
    let nobody = User::ordinary(&world);
    verimount_as(&nobody, args!["status", &socket]).succeeds_quietly();
    verimount_as(&nobody, args!["umount", &socket]).fails_saying("Operation not permitted");
    verimount(args!["status", &socket]).succeeds_quietly();
    end(&world, served);
}

#[test]
fn a_group_may_connect() {
    let world = World::new();
    format(&world, &[]);
    let group = if is_root() {
        65534
    } else {
        fs::metadata(world.root()).unwrap().gid()
    };
    let group = group.to_string();
    let options = ["--socket-mode", "660", "--socket-group", &group];
    let served = serve(&world, &options);
    let made = fs::metadata(world.path("socket")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o660);
    assert_eq!(made.gid().to_string(), group);
    end(&world, served);
    let by_name = ["--socket-group", "root"];
    if is_root() {
        let served = serve(&world, &by_name);
        assert_eq!(fs::metadata(world.path("socket")).unwrap().gid(), 0);
        end(&world, served);
    }
}

/// A command whose user has a runtime directory, `run`.
fn with_runtime_directory(world: &World) -> Command {
    let mut command = User::Current.command();
    command.env("XDG_RUNTIME_DIR", world.path("run"));
    command
}

/// How a socket is listed, if it is.
fn listed(world: &World, socket: &Path) -> Option<Value> {
    let mut list = with_runtime_directory(world);
    list.args(["list", "--json"]);
    let list = finish(list);
    let list: Vec<Value> = serde_json::from_value(list.succeeds_quietly().json()).unwrap();
    let mut list = list.into_iter();
    list.find(|listed| listed["target"] == socket.to_str().unwrap())
}

/// The registered exports.
fn notes(world: &World) -> Vec<PathBuf> {
    let directory = if is_root() {
        "/run/verimount".into()
    } else {
        world.path("run/verimount")
    };
    let entries = fs::read_dir(directory).into_iter().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.collect()
}

#[test]
fn exports_are_listed() {
    let world = World::new();
    world.directory("run");
    let path = format(&world, &[]);
    let socket = world.path("socket");
    assert!(listed(&world, &socket).is_none());
    let serve = || Daemon::nbd_by(with_runtime_directory(&world), &path, &socket, &[]);
    let mut killed = serve();
    let found = listed(&world, &socket).unwrap();
    assert_eq!(found["way"], "export");
    assert_eq!(found["kind"], "volume");
    assert_eq!(found["source"], path.to_str().unwrap());
    assert_eq!(found["pid"], killed.pid());
    assert!(found["error"].is_null());
    // What a killed server leaves is shown with what to do, until its socket is removed or used again.
    killed.signal(Signal::KILL);
    killed.wait();
    let found = || listed(&world, &socket).unwrap();
    // Its helper has the socket, too, until it ends a moment later.
    eventually("it is dead", || found()["state"] == "dead");
    let dead = found();
    assert!(dead["error"].as_str().unwrap().contains("serve again"));
    verimount(args!["status", &socket]).fails_saying("serve again");
    let gone = world.path("gone");
    fs::rename(&socket, &gone).unwrap();
    assert!(listed(&world, &socket).is_none());
    assert!(!notes(&world).contains(&socket));
    let served = serve();
    assert_eq!(listed(&world, &socket).unwrap()["state"], "live");
    end(&world, served);
    assert!(!notes(&world).contains(&socket));
    assert!(listed(&world, &socket).is_none());
}
