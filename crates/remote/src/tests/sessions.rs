//! What the files of a session share.

use std::{thread, time::Duration};

use verimount_source::{Fetch, GRANULE, Hint};
use verimount_testkit::{HttpEnd, HttpServer, eventually};

use super::{content, patient, read, reads, session};
use crate::{Error, RemoteOptions, Session};

/// Only the first request is answered.
fn silent() -> HttpServer {
    HttpServer::start(content(), |number, _, right| match number {
        0 => right,
        _ => right.cut(10, HttpEnd::Silent),
    })
}

#[test]
fn dropping_a_file_does_not_wait() {
    let server = silent();
    let file = super::open(&server, patient()).unwrap();
    file.hint(GRANULE..2 * GRANULE, Hint::Need);
    // Returns, although the request has not ended and will not.
    drop(file);
}

#[test]
fn closing_ends_reads_that_wait() {
    let server = silent();
    let session = session(patient());
    let file = session.open(&server.url("/file").parse().unwrap()).unwrap();
    thread::scope(|scope| {
        // More than there are connections.
        let readers: Vec<_> = (0..12)
            .map(|reader| {
                scope.spawn({
                    let file = &file;
                    move || read(file, GRANULE + reader % 4 * GRANULE, 10)
                })
            })
            .collect();
        eventually("they wait", || server.requests().len() >= 2);
        session.close();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), Err(Error::Closed));
        }
    });
    assert_eq!(read(&file, 5 * GRANULE, 10), Err(Error::Closed));
    // What is here can be read no longer, either: closing is the end.
    assert_eq!(read(&file, 0, 10), Err(Error::Closed));
    let url = server.url("/file").parse().unwrap();
    assert_eq!(session.open(&url).err(), Some(Error::Closed));
}

#[test]
fn closing_ends_opening() {
    let server = HttpServer::start(content(), |_, _, right| right.cut(10, HttpEnd::Silent));
    let session = session(patient());
    thread::scope(|scope| {
        let opening = scope.spawn(|| session.open(&server.url("/file").parse().unwrap()).err());
        eventually("it is asked", || !server.requests().is_empty());
        session.close();
        assert_eq!(opening.join().unwrap(), Some(Error::Closed));
    });
}

#[test]
fn what_was_done_is_counted() {
    let server = HttpServer::start(content(), |number, _, right| match number {
        1 | 2 => right.only_status(503),
        3 => right.cut(1000, HttpEnd::Closed),
        5.. => right.only_status(404),
        _ => right,
    });
    let session = session(patient());
    let file = session.open(&server.url("/file").parse().unwrap()).unwrap();
    reads(&file, GRANULE, 10);
    let stats = session.stats();
    assert_eq!(stats.bytes, 2 * GRANULE);
    // There are five, and one for the end, which this server refuses whenever it comes.
    assert!([5, 6].contains(&stats.requests), "{}", stats.requests);
    assert_eq!((stats.retries_busy, stats.retries_broken), (2, 1));
    assert_eq!(stats.retries_unreachable, 0);
    let last = session.last_failure().unwrap().error;
    assert!(matches!(last, Error::Broken(_)), "{last:?}");
    read(&file, 2 * GRANULE, 10).unwrap_err();
    let last = session.last_failure().unwrap().error;
    assert_eq!(last, Error::NotFound { status: 404 });
    drop(session);
    assert!(super::open(&server, patient()).is_err());
}

#[test]
fn a_read_may_wait_as_long_as_it_likes() {
    let server = HttpServer::honest(content());
    let session = Session::new(RemoteOptions {
        timeout: Duration::MAX,
        ..RemoteOptions::default()
    });
    let file = session.open(&server.url("/file").parse().unwrap()).unwrap();
    reads(&file, GRANULE, 10);
}
