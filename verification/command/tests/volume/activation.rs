//! A socket that systemd has made.

use std::os::unix::net::UnixStream;

use super::{format, json};
use crate::prelude::*;

/// What systemd does before it starts a service: sd_listen_fds(3).
const SYSTEMD: &str = "
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
os.dup2(listening.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_service_with_a_socket_unit_serves_its_socket() {
    let world = World::new();
    let path = format(&world, &[]);
    let python = needs!(tools::find("python3"));
    let socket = world.path("socket");
    let mut command = Command::new(python);
    command.args(["-c", SYSTEMD]).arg(&socket).arg(binary());
    command.args(["volume", "serve"]).arg(&path);
    command.args(["--mode", "direct", "--foreground"]);
    let mut service = command.stderr(Stdio::null()).spawn().unwrap();
    let listens = || UnixStream::connect(&socket).is_ok();
    eventually("the socket listens", listens);
    let status = json(args!["status --json", &socket], 0);
    assert_eq!(status["kind"], "volume");
    assert_eq!(status["daemon"]["pid"], service.id());
    verimount(args!["umount", &socket]).succeeds_quietly();
    assert!(service.wait().unwrap().success());
    // It is not ours to remove.
    assert!(socket.exists());
}

#[test]
fn without_a_socket_it_is_said_how_to_give_one() {
    let world = World::new();
    let path = format(&world, &[]);
    let served = verimount(args!["volume serve --foreground", &path]);
    served.is_wrong_usage().notes("give --socket PATH");
}
