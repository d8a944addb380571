//! The socket, and multiple clients.

use std::{
    fs::{self, Permissions},
    io::{self, Read},
    num::NonZeroUsize,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::{UnixListener, UnixStream},
    },
    thread,
};

use verimount_nbd::{
    Server, SocketAccess,
    client::{ask, connect as connect_to},
};

use super::{
    client::Client,
    world::{Disk, NAME, serving, serving_at},
};

#[test]
fn only_the_owner_may_connect() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _server = Server::bind(&socket, Default::default()).unwrap();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn others_may_connect_if_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let group = fs::metadata(folder.path()).unwrap().gid();
    let access = SocketAccess {
        mode: Some(0o666),
        group: Some(group),
    };
    let server = Server::bind(&socket, access).unwrap();
    let made = fs::metadata(&socket).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o666);
    assert_eq!(made.gid(), group);
    drop(server);
    // What cannot be had leaves no socket that others may use in another way.
    let access = SocketAccess {
        group: Some(u32::MAX - 1),
        ..access
    };
    if Server::bind(&socket, access).is_err() {
        assert!(!socket.exists());
    }
}

#[test]
fn only_a_dead_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = Server::bind(&socket, Default::default()).unwrap();
    let in_use = Server::bind(&socket, Default::default()).err().unwrap();
    assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
    drop(server);
    fs::write(&socket, "content").unwrap();
    let in_use = Server::bind(&socket, Default::default()).err().unwrap();
    assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
    assert_eq!(fs::read(&socket).unwrap(), b"content");
    fs::remove_file(&socket).unwrap();
    // A socket as left by a killed server.
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    Server::bind(&socket, Default::default()).unwrap();
}

#[test]
fn a_socket_is_not_made_where_others_lead() {
    let folder = tempfile::tempdir().unwrap();
    let [real, theirs] = ["real", "theirs"].map(|name| folder.path().join(name));
    for path in [&real, &theirs] {
        fs::create_dir(path).unwrap();
    }
    symlink(&real, theirs.join("link")).unwrap();
    fs::set_permissions(&theirs, Permissions::from_mode(0o777)).unwrap();
    let refused = Server::bind(&theirs.join("link/socket"), Default::default())
        .err()
        .unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    assert!(!real.join("socket").exists());
    // Among directories of others, it is where it was said to be.
    let own = theirs.join("directory/socket");
    fs::create_dir(theirs.join("directory")).unwrap();
    let server = Server::bind(&own, Default::default()).unwrap();
    UnixStream::connect(&own).unwrap();
    drop(server);
    assert!(!own.exists());
}

#[test]
fn clients_see_one_disk() {
    serving(Disk::default(), |connect, _| {
        let mut clients = [connect().goes(), connect().goes()];
        assert_eq!(clients[0].writes(0, 0, b"content"), 0);
        assert_eq!(clients[1].reads(0, 7), Ok(b"content".to_vec()));
    });
}

/// Others are told so in the handshake; of these, too, there is a maximum number.
#[test]
fn the_number_of_clients_is_limited() {
    const POLICY: u32 = 1 << 31 | 2;
    serving_at(Disk::default(), |socket, _| {
        let connect = || Client::connect(socket);
        let clients: Vec<_> = (0..32).map(|_| connect().goes()).collect();
        let mut more = connect();
        more.option(7, &[0; 6]);
        assert_eq!(more.option_reply(7).0, POLICY);
        let mut by_name = connect();
        by_name.option(1, b"");
        assert!(by_name.is_left());
        let mut visitors: Vec<_> = (0..3).map(|_| Client::silent(socket)).collect();
        let mut last = UnixStream::connect(socket).unwrap();
        while last.read(&mut [0]).unwrap() > 0 {
            // The server may not have noticed yet that `by_name` has left.
            visitors.push(Client { stream: last });
            assert!(visitors.len() <= 4);
            last = UnixStream::connect(socket).unwrap();
        }
        let asked = ask(&mut connect_to(socket).unwrap(), NAME);
        assert_eq!(asked.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        drop((clients, more, visitors));
    });
}

/// Idle clients do not keep the server from ending.
#[test]
fn a_stopped_server_disconnects_its_clients() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = Server::bind(&socket, Default::default()).unwrap();
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
