//! Options of the export's own.

use std::{
    io,
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    time::Duration,
};

use verimount_nbd::{
    Limits, Server,
    client::{Reply, Until, ask, connect, leave, read_reply},
};

use super::{
    client::Client,
    world::{A_NAME, COUNT, Disk, NAME, serving, serving_at, serving_at_within},
};

/// A disk that never counts to the end.
fn endless() -> Disk {
    Disk {
        last: u64::MAX,
        ..Disk::default()
    }
}

fn asked(socket: &Path, option: u32) -> UnixStream {
    let mut stream = connect(socket).unwrap();
    ask(&mut stream, option).unwrap();
    stream
}

fn next(stream: &mut UnixStream, option: u32) -> Reply {
    read_reply(stream, option, 100).unwrap()
}

fn number(number: u64) -> Reply {
    Reply::Told(number.to_be_bytes().to_vec())
}

/// A client may use the export after a reply, as with any option.
#[test]
fn a_handshake_continues_after_a_reply() {
    serving_at(Disk::default(), |socket, _| {
        let mut stream = asked(socket, NAME);
        assert_eq!(next(&mut stream, NAME), Reply::Told(A_NAME.to_vec()));
        leave(&mut stream);
    });
    serving(Disk::default(), |connect, _| {
        let mut client = connect();
        client.option(NAME, b"");
        assert_eq!(client.option_reply(NAME), (NAME, A_NAME.to_vec()));
        assert_eq!(client.goes().reads(0, 2), Ok(vec![7, 7]));
    });
}

#[test]
fn all_that_a_talk_tells_arrives() {
    serving_at(Disk::default(), |socket, _| {
        let mut client = Client::connect(socket).goes();
        let mut stream = asked(socket, COUNT);
        for told in 0..=2 {
            // Others use the disk meanwhile.
            assert!(client.reads(0, 1).is_ok());
            assert_eq!(next(&mut stream, COUNT), number(told));
        }
        assert_eq!(next(&mut stream, COUNT), Reply::Done);
    });
}

#[test]
fn one_talk_at_a_time() {
    serving_at(endless(), |socket, _| {
        let mut first = asked(socket, COUNT);
        assert_eq!(next(&mut first, COUNT), number(0));
        let mut second = asked(socket, COUNT);
        assert_eq!(next(&mut second, COUNT), Reply::Busy);
        drop(first);
        // The server notices that the first one has left.
        while next(&mut asked(socket, COUNT), COUNT) == Reply::Busy {}
    });
}

/// However many clients there are, those who only ask find a place.
#[test]
fn those_who_ask_have_places_of_their_own() {
    let limits = Limits {
        clients: 2,
        visitors: 2,
        ..Limits::default()
    };
    serving_at_within(limits, endless(), |socket, _| {
        let _clients = [0, 1].map(|_| Client::connect(socket).goes());
        let mut counts = asked(socket, COUNT);
        assert_eq!(next(&mut counts, COUNT), number(0));
        let named = next(&mut asked(socket, NAME), NAME);
        assert_eq!(named, Reply::Told(A_NAME.to_vec()));
    });
}

#[test]
fn a_server_that_is_stopped_ends_a_talk() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = Server::bind(&socket, Default::default()).unwrap();
    let disk = endless();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&disk, std::num::NonZeroUsize::MIN));
        let mut stream = asked(&socket, COUNT);
        assert_eq!(next(&mut stream, COUNT), number(0));
        server.stop();
        let ended = loop {
            match read_reply(&mut stream, COUNT, 8) {
                Ok(Reply::Told(_)) => {}
                other => break other,
            }
        };
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        serving.join().unwrap();
    });
}

/// Asking is not waiting for ever.
#[test]
fn a_server_that_says_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let missing = connect(&socket).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let _silent = UnixListener::bind(&socket).unwrap();
    let stream = connect(&socket).unwrap();
    let asked = ask(&mut Until::new(&stream, Duration::from_millis(10)), NAME);
    assert_eq!(asked.unwrap_err().kind(), io::ErrorKind::TimedOut);
}
