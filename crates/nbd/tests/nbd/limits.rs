//! Limits on clients, and what happens to clients that exceed them.

use std::{
    io::{Read, Write},
    num::NonZeroUsize,
    os::unix::net::UnixStream,
    sync::atomic::Ordering::SeqCst,
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use verimount_nbd::{Limits, Server};
use verimount_testkit::eventually;

use super::{
    client::{Client, FLUSH, PATIENCE, READ, WRITE, is_still_open},
    world::{Disk, Stop, serving_within},
};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1000);

/// The length of a request, in bytes: more than a socket buffers. It contains no unreadable byte.
const LEN: u32 = 480 << 10;

/// The memory of such a request, in bytes.
const MEMORY: usize = 512 << 10;

/// Waits until `count` reads have been performed.
fn await_reads(disk: &Disk, count: usize) {
    eventually("they are performed", || disk.reads.load(SeqCst) >= count);
}

fn takes_answer(mut client: Client) {
    assert_eq!(client.error(), 0);
    assert!(client.hear(LEN as usize) == vec![7; LEN as usize]);
}

/// Whether the server disconnects a client before it has received `len` bytes.
fn is_left_within(client: Client, len: usize) -> bool {
    let mut stream = client.stream;
    let mut heard = Vec::new();
    // This fails if the server has not read everything that was sent.
    let ended = stream.read_to_end(&mut heard);
    assert!(!is_still_open(&ended), "nothing comes");
    heard.len() < len
}

#[test]
fn requests_share_a_bounded_memory() {
    const CLIENTS: usize = 8;
    const ROOM: usize = 3;
    let limits = Limits {
        memory: ROOM * MEMORY,
        stall: LONG,
        ..Limits::default()
    };
    serving_within(limits, Disk::default(), |connect, disk| {
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| connect().goes()).collect();
        for client in &mut clients {
            client.request(READ, 0, 0, LEN);
        }
        await_reads(disk, ROOM);
        // Requests that need no memory are performed meanwhile.
        let mut other = connect().goes();
        for _ in 0..100 {
            assert_eq!(other.does(FLUSH, 0, 0, 0), 0);
        }
        assert_eq!(disk.reads.load(SeqCst), ROOM);
        // When one client has taken its answer, the next is answered. Their order is unknown here.
        thread::scope(|scope| {
            for client in clients {
                scope.spawn(|| takes_answer(client));
            }
        });
        assert_eq!(disk.reads.load(SeqCst), CLIENTS);
    });
}

/// A request that exceeds the memory is performed when it is the only one.
#[test]
fn no_request_is_too_large() {
    let limits = Limits {
        memory: 1,
        ..Limits::default()
    };
    serving_within(limits, Disk::default(), |connect, _| {
        let mut clients: Vec<_> = (0..4).map(|_| connect().goes()).collect();
        for client in &mut clients {
            client.request(READ, 0, 0, LEN);
        }
        // Their order is unknown here.
        thread::scope(|scope| {
            for client in clients {
                scope.spawn(|| takes_answer(client));
            }
        });
    });
}

#[test]
fn a_client_that_stalls_needed_memory_is_disconnected() {
    let limits = Limits {
        memory: MEMORY,
        stall: Duration::ZERO,
        ..Limits::default()
    };
    let disk = serving_within(limits, Disk::default(), |connect, disk| {
        let mut reader = connect().goes();
        reader.request(READ, 0, 0, LEN);
        await_reads(disk, 1);
        let mut other = connect().goes();
        other.request(READ, 0, 0, LEN);
        await_reads(disk, 2);
        assert!(is_left_within(reader, LEN as usize));
        takes_answer(other);

        let mut writer = connect().goes();
        writer.request(WRITE, 0, 0, LEN);
        // A socket buffers less than this, so the server has received some of it.
        writer.say(&[1; LEN as usize / 2]);
        assert!(connect().goes().reads(0, LEN).is_ok());
        assert!(writer.is_left());
    });
    assert!(
        disk.bytes
            .into_inner()
            .unwrap()
            .iter()
            .all(|&byte| byte == 7)
    );
}

#[test]
fn a_lone_client_may_take_any_time() {
    let limits = Limits {
        memory: MEMORY,
        stall: Duration::ZERO,
        ..Limits::default()
    };
    serving_within(limits, Disk::default(), |connect, disk| {
        let mut client = connect().goes();
        for _ in 0..6 {
            client.request(READ, 0, 0, LEN);
        }
        await_reads(disk, 1);
        for _ in 0..6 {
            assert_eq!(client.error(), 0);
            client.hear(LEN as usize);
        }
    });
}

#[test]
fn a_handshake_has_a_time_limit() {
    let limits = Limits {
        handshake: Duration::from_millis(50),
        ..Limits::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut server = Server::bind(&socket, Default::default()).unwrap();
    server.limits = limits;
    let disk = Disk::default();
    thread::scope(|scope| {
        scope.spawn(|| server.serve(&disk, NonZeroUsize::MIN));
        let _stop = Stop(&server);
        // One sends nothing.
        let mut silent = Client::silent(&socket);
        assert!(silent.is_left());
        // The other never finishes the handshake.
        let began = Instant::now();
        let mut talker = UnixStream::connect(&socket).unwrap();
        let list = [&b"IHAVEOPT"[..], &3_u32.to_be_bytes(), &[0; 4]].concat();
        let mut said = talker.write_all(&3_u32.to_be_bytes());
        while said.is_ok() {
            let _ = talker.read(&mut [0; 4096]);
            said = talker.write_all(&list);
            assert!(began.elapsed() < PATIENCE, "it is still heard");
        }
    });
}

#[test]
fn an_idle_client_is_replaced() {
    let limits = Limits {
        clients: 2,
        idle: Duration::ZERO,
        ..Limits::default()
    };
    serving_within(limits, Disk::default(), |connect, _| {
        let [mut first, mut second] = [connect().goes(), connect().goes()];
        assert!(first.reads(0, 1).is_ok());
        let mut third = connect().goes();
        assert!(second.is_left());
        assert!(first.reads(0, 1).is_ok());
        assert!(third.reads(0, 1).is_ok());
    });
}

/// Stops a server that is answering a client, and runs `then` with both.
fn stop_while_answering(grace: Duration, then: impl FnOnce(Client, ScopedJoinHandle<'_, ()>)) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let limits = Limits {
        grace,
        ..Limits::default()
    };
    let mut server = Server::bind(&socket, Default::default()).unwrap();
    server.limits = limits;
    let disk = Disk::default();
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&disk, NonZeroUsize::MIN));
        let _stop = Stop(&server);
        let mut client = Client::connect(&socket).goes();
        client.request(READ, 0, 0, LEN);
        await_reads(&disk, 1);
        server.stop();
        then(client, serving);
    });
}

#[test]
fn a_server_that_is_stopped_waits_for_answers_to_be_taken() {
    stop_while_answering(LONG, |client, serving| {
        takes_answer(client);
        serving.join().unwrap();
    });
}

#[test]
fn a_server_that_is_stopped_does_not_wait_for_ever() {
    stop_while_answering(Duration::from_millis(1), |client, serving| {
        serving.join().unwrap();
        assert!(is_left_within(client, LEN as usize));
    });
}
