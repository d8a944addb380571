//! The socket, and many clients.

use std::{
    fs,
    io::{self, Read},
    num::NonZeroUsize,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    thread,
};

use verimount_nbd::Server;

use super::{
    client::Client,
    world::{Disk, serving},
};

#[test]
fn only_the_owner_may_connect() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _server = Server::bind(&socket).unwrap();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_socket_takes_the_place_of_none_but_a_dead_one() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = Server::bind(&socket).unwrap();
    let in_use = Server::bind(&socket).err().unwrap();
    assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
    drop(server);
    fs::write(&socket, "content").unwrap();
    let in_use = Server::bind(&socket).err().unwrap();
    assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
    assert_eq!(fs::read(&socket).unwrap(), b"content");
    fs::remove_file(&socket).unwrap();
    // As a server leaves it that was killed.
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    Server::bind(&socket).unwrap();
}

#[test]
fn clients_see_one_disk() {
    serving(Disk::default(), |connect, _| {
        let mut clients = [connect().goes(), connect().goes()];
        assert_eq!(clients[0].writes(0, 0, b"content"), 0);
        assert_eq!(clients[1].reads(0, 7), Ok(b"content".to_vec()));
    });
}

#[test]
fn nobody_is_let_in_beyond_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = Server::bind(&socket).unwrap();
    let disk = Disk::default();
    thread::scope(|scope| {
        scope.spawn(|| server.serve(&disk, NonZeroUsize::MIN));
        let clients: Vec<_> = (0..32).map(|_| Client::connect(&socket).goes()).collect();
        let mut more = UnixStream::connect(&socket).unwrap();
        assert_eq!(more.read(&mut [0]).unwrap(), 0);
        drop(clients);
        server.stop();
    });
}

/// Those that say nothing do not keep it from ending.
#[test]
fn a_server_that_is_stopped_leaves_its_clients() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = Server::bind(&socket).unwrap();
    let disk = Disk::default();
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&disk, NonZeroUsize::MIN));
        let mut silent = Client::silent(&socket);
        let mut idle = Client::connect(&socket).goes();
        server.stop();
        assert!(silent.is_left() && idle.is_left());
        serving.join().unwrap();
    });
}
