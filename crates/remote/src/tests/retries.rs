use std::{net::TcpListener, time::Duration};

use verimount_source::{Ask, Fetch, GRANULE};
use verimount_testkit::{HttpAnswer, HttpEnd, HttpServer, eventually};

use super::{content, impatient, open, patient, read, reads, reason, session};
use crate::{Error, RemoteOptions, Session, limits::Limits};

#[test]
fn a_busy_server_is_asked_again() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let server = HttpServer::start(content(), move |number, _, right| match number {
            0 | 2 | 3 => right.only_status(status),
            _ => right,
        });
        let file = open(&server, patient()).unwrap();
        reads(&file, GRANULE, 10);
        assert_eq!(server.requests().len(), 5);
    }
}

#[test]
fn what_stays_busy_is_given_up_and_not_latched() {
    let server = HttpServer::start(content(), |number, _, right| match number {
        0 => right,
        // Far more than fit into the deadline.
        1 => right.only_status(503).with("retry-after", 100_000),
        _ => right,
    });
    let file = open(&server, patient()).unwrap();
    match read(&file, GRANULE, 10) {
        Err(Error::GaveUp { last, .. }) => assert_eq!(*last, Error::Busy { status: 503 }),
        other => panic!("{other:?}"),
    }
    // The server's wish was respected: nobody asked again.
    assert_eq!(server.requests().len(), 2);
    reads(&file, GRANULE, 10);
}

#[test]
fn opening_has_a_deadline() {
    let server = HttpServer::start(content(), |_, _, right| right.only_status(503));
    let error = open(&server, impatient()).err();
    assert!(matches!(error, Some(Error::GaveUp { .. })), "{error:?}");
}

#[test]
fn a_transfer_that_breaks_off_is_resumed() {
    const KEPT: usize = 200_000;
    for end in [HttpEnd::Closed, HttpEnd::Silent] {
        let server = HttpServer::start(content(), move |number, _, right| match number {
            1 => right.cut(KEPT, end),
            _ => right,
        });
        let limits = Limits {
            silence: Duration::from_millis(200),
            ..patient()
        };
        let file = open(&server, limits).unwrap();
        let rest = content().len() - GRANULE as usize;
        reads(&file, GRANULE, rest);
        let requests = server.requests();
        let resumed = requests[2].range.clone().unwrap();
        assert_eq!(
            resumed,
            GRANULE + KEPT as u64..content().len() as u64,
            "{end:?}"
        );
    }
}

#[test]
fn after_the_last_byte_nothing_is_asked_for() {
    let server = HttpServer::start(content(), |_, _, right| {
        let len = right.body.len();
        right.cut(len, HttpEnd::Closed)
    });
    let file = open(&server, patient()).unwrap();
    reads(&file, 0, content().len());
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_connection_without_an_answer_is_replaced() {
    let server = HttpServer::start(content(), |number, _, right| match number {
        0 | 2 => HttpAnswer {
            end: HttpEnd::Unanswered,
            ..right
        },
        _ => right,
    });
    let file = open(&server, patient()).unwrap();
    reads(&file, GRANULE, 10);
}

#[test]
fn nobody_there_is_said_at_once() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/file", listener.local_addr().unwrap());
    drop(listener);
    let error = session(patient()).open(&url.parse().unwrap()).err();
    assert!(matches!(error, Some(Error::Unreachable(_))), "{error:?}");
}

/// What a server once kept silent about would otherwise be waited for as long as by default, read after read.
#[test]
fn a_short_deadline_shortens_all_others() {
    let server = HttpServer::start(content(), |number, _, right| match number {
        1 => right.cut(10, HttpEnd::Silent),
        _ => right,
    });
    let options = RemoteOptions {
        timeout: Duration::from_secs(1),
        ..RemoteOptions::default()
    };
    let url = server.url("/file").parse().unwrap();
    let file = Session::new(options).open(&url).unwrap();
    let reads = (0..).map(|_| read(&file, GRANULE, 10));
    let failed = reads.take_while(Result::is_err).count();
    assert!((1..5).contains(&failed), "{failed} reads failed");
}

#[test]
fn a_reader_does_not_wait_for_ever() {
    let server = HttpServer::start(content(), |number, _, right| match number {
        0 => right,
        _ => right.cut(10, HttpEnd::Silent),
    });
    let limits = Limits {
        silence: Duration::from_millis(10),
        ..impatient()
    };
    let file = open(
        &server,
        Limits {
            open: patient().open,
            ..limits
        },
    )
    .unwrap();
    let error = read(&file, GRANULE, 10).unwrap_err();
    let is_late = matches!(error, Error::GaveUp { .. } | Error::TimedOut { .. });
    assert!(is_late, "{error:?}");
}

#[test]
fn a_host_that_is_not_known_is_not_tried_again() {
    let session = session(patient());
    let url = "http://nosuchhost.invalid/file".parse().unwrap();
    let error = session.open(&url).err().unwrap();
    // Without a name server it cannot be known that there is no such host.
    assert!(
        matches!(error, Error::UnknownHost | Error::Unreachable(_)),
        "{error:?}"
    );
    let stats = session.stats();
    let retries = [
        stats.retries_busy,
        stats.retries_unreachable,
        stats.retries_broken,
    ];
    assert_eq!(retries, [0; 3]);
}

#[test]
fn a_hasty_reader_does_not_wait_for_retries() {
    const HOUR: Duration = Duration::from_secs(3600);
    let server = HttpServer::start(content(), |number, _, right| match number {
        1 => right.only_status(503).with("retry-after", 1),
        _ => right,
    });
    let file = open(&server, patient()).unwrap();
    let mut buf = [0; 10];
    let hasty = Ask::within(Some(HOUR));
    let read = file.fetch(&mut buf, GRANULE, hasty);
    assert_eq!(reason(read), Err(Error::Busy { status: 503 }));
    // Meanwhile it is tried again, once for all readers.
    eventually("it has come", || {
        file.fetch(&mut buf, GRANULE, hasty).is_ok()
    });
    assert_eq!(buf, content()[GRANULE as usize..][..10]);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_hasty_reader_finds_later_what_came_too_late() {
    let (answer, told) = std::sync::mpsc::channel::<()>();
    let told = std::sync::Mutex::new(told);
    let server = HttpServer::start(content(), move |number, _, right| {
        if number == 1 {
            let _ = told.lock().unwrap().recv();
        }
        right
    });
    let file = open(&server, patient()).unwrap();
    let mut buf = [0; 10];
    let short = Duration::from_millis(10);
    let read = file.fetch(&mut buf, GRANULE, Ask::within(Some(short)));
    assert_eq!(reason(read), Err(Error::TimedOut { after: short }));
    drop(answer);
    eventually("it has come", || {
        let now = Ask::within(Some(Duration::ZERO));
        file.fetch(&mut buf, GRANULE, now).is_ok()
    });
    assert_eq!(buf, content()[GRANULE as usize..][..10]);
    assert_eq!(server.requests().len(), 2);
}
