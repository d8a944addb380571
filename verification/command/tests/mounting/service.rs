//! A mount as a service of systemd, which gets its state in datagrams.

use std::os::{
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

use crate::prelude::*;

/// Far longer than any datagram takes to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

fn socket(world: &World) -> UnixDatagram {
    let socket = UnixDatagram::bind(world.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Mounts with the name of a socket in the environment.
#[track_caller]
fn mounted(world: &World, name: impl AsRef<Path>) -> Daemon {
    let image = world.sealed_image("image");
    let mut command = Command::new(binary());
    command.env("NOTIFY_SOCKET", name.as_ref());
    let mounted = Daemon::start(command, &image, &world.path("mnt"), &["--unpinned"]);
    mounted.unwrap_or_else(|said| panic!("not mounted: {said}"))
}

#[track_caller]
fn says(socket: &UnixDatagram, expected: &str) {
    let mut state = [0; 100];
    let len = socket.recv(&mut state).unwrap();
    assert_eq!(str::from_utf8(&state[..len]), Ok(expected));
}

#[test]
fn it_says_when_it_is_mounted_and_when_it_ends() {
    let world = needs!(World::with_mount_point());
    let socket = socket(&world);
    let mounted = mounted(&world, world.path("notify"));
    says(&socket, "READY=1");
    // Open files keep it going after the signal.
    let open = fs::File::open(mounted.path("hello")).unwrap();
    mounted.signal(Signal::TERM);
    says(&socket, "STOPPING=1");
    drop(open);
    mounted.ends_well();
}

#[test]
fn an_abstract_socket_is_told_that_it_was_unmounted() {
    let world = needs!(World::with_mount_point());
    let name = format!("verimount/test/{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mounted = mounted(&world, format!("@{name}"));
    says(&socket, "READY=1");
    mounted.unmount();
    says(&socket, "STOPPING=1");
}

#[test]
fn a_missing_socket_does_no_harm() {
    let world = needs!(World::with_mount_point());
    let mounted = mounted(&world, world.path("missing"));
    assert_eq!(fs::read(mounted.path("hello")).unwrap(), b"Hello, world!\n");
    let log = mounted.unmount();
    assert!(log.contains("cannot be notified"), "{log}");
}

/// The service manager knows the command, not the process that it leaves behind.
#[test]
fn a_mount_in_the_background_says_nothing() {
    let world = needs!(World::with_mount_point());
    let socket = socket(&world);
    let image = world.sealed_image("image");
    let mut command = Command::new(binary());
    command.env("NOTIFY_SOCKET", world.path("notify"));
    command.args(args![
        "mount",
        &image,
        world.path("mnt"),
        "--unpinned",
        "--quiet"
    ]);
    let ended = finish(command);
    assert_eq!(ended.succeeds().stderr, "");
    umount(&world.path("mnt"));
    socket.set_nonblocking(true).unwrap();
    let nothing = socket.recv(&mut [0; 10]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
}
