use std::time::Duration;

use verimount_source::{Ask, Fetch, GRANULE, Given, Hint};
use verimount_testkit::{HttpAnswer, HttpEnd, HttpServer};

use super::{content, open, open_within, patient, read, reads};
use crate::{
    Error, Session,
    budget::Budget,
    limits::{Limits, MAX_SIZE},
};

type Change = fn(HttpAnswer) -> HttpAnswer;

/// Wrong answers, and what they are called. What they are called at the first request may differ.
fn wrong_answers() -> Vec<(Change, Error, Option<Error>)> {
    let status = |status| Error::Status { status };
    vec![
        (
            |right| right.only_status(404),
            Error::NotFound { status: 404 },
            None,
        ),
        (
            |right| right.only_status(410),
            Error::NotFound { status: 410 },
            None,
        ),
        (
            |right| right.only_status(401),
            Error::Forbidden { status: 401 },
            None,
        ),
        (
            |right| right.only_status(403),
            Error::Forbidden { status: 403 },
            None,
        ),
        (|right| right.only_status(304), status(304), None),
        (|right| right.only_status(412), status(412), None),
        (|right| right.only_status(416), status(416), None),
        (
            |right| right.only_status(416).with("content-range", "bytes */7"),
            Error::Replaced,
            Some(status(416)),
        ),
        (
            |right| HttpAnswer {
                status: 200,
                ..right
            },
            Error::NoRanges,
            None,
        ),
        (
            |right| right.without("content-range"),
            Error::NoContentRange,
            None,
        ),
        (
            |right| {
                right
                    .with("content-type", "multipart/byteranges")
                    .without("content-range")
            },
            Error::NoContentRange,
            None,
        ),
        (
            |right| right.with("content-range", "bytes 1-131072/656360"),
            Error::WrongRange,
            None,
        ),
        (
            |right| right.with("content-range", "bytes 131072-262142/656360"),
            Error::WrongRange,
            None,
        ),
        (
            |right| right.with("content-encoding", "gzip"),
            Error::Encoded,
            None,
        ),
        (
            |right| right.with("content-length", 1000).cut(1000, HttpEnd::Open),
            Error::WrongLength {
                announced: 1000,
                expected: GRANULE,
            },
            None,
        ),
        (
            |right| right.with("location", "/file").only_location(),
            Error::Redirects,
            None,
        ),
        (
            |right| right.with("x-long", "a".repeat(20_000)),
            Error::LargeHead,
            None,
        ),
    ]
}

trait OnlyLocation {
    fn only_location(self) -> Self;
}

impl OnlyLocation for HttpAnswer {
    fn only_location(self) -> Self {
        self.only_status(302).with("location", "/file")
    }
}

#[test]
fn a_refusal_is_told_where_nothing_else_is_answered() {
    let server = HttpServer::start([7; 1000], |_, request, right| {
        let refused = right.only_status(416);
        match request.header("range") {
            Some(_) => refused,
            None => refused.cut(0, HttpEnd::Unanswered),
        }
    });
    let error = open(&server, patient()).err();
    assert_eq!(error, Some(Error::Status { status: 416 }));
}

/// As crane's registry (0.22.1, status 416) and webfsd (1.21, status 400) refuse the first range that is asked for.
#[test]
fn a_small_file_is_read_where_ranges_behind_it_are_refused() {
    const SIZE: usize = 1000;
    for (status, tells_size, requests) in [(416, true, 2), (416, false, 3), (400, false, 3)] {
        let server = HttpServer::start([7; SIZE], move |_, request, right| {
            match request.header("range") {
                Some("bytes=0-131071") if tells_size => {
                    let refused = right.only_status(status);
                    refused.with("content-range", format!("bytes */{SIZE}"))
                }
                Some("bytes=0-131071") => right.only_status(status),
                Some(_) => right,
                None => right.only_status(200).with("content-length", SIZE),
            }
        });
        let file = open(&server, patient()).unwrap();
        let mut buf = [0; SIZE];
        file.fetch(&mut buf, 0, Ask::default()).unwrap();
        assert_eq!(buf, [7; SIZE]);
        assert_eq!(server.requests().len(), requests);
    }
}

#[test]
fn wrong_first_answers_have_their_names() {
    for (change, later, first) in wrong_answers() {
        let expected = first.unwrap_or(later);
        let server = HttpServer::start(content(), move |_, _, right| change(right));
        let error = open(&server, patient()).err();
        assert_eq!(error, Some(expected));
    }
}

#[test]
fn wrong_later_answers_have_their_names_and_are_not_latched() {
    for (change, expected, _) in wrong_answers() {
        let is_redirected = expected == Error::Redirects;
        let server = HttpServer::start(content(), move |number, _, right| match number {
            0 => right,
            1 => change(right),
            // A redirect is followed by the next request.
            2..=6 if is_redirected => change(right),
            _ => right,
        });
        let file = open(&server, patient()).unwrap();
        assert_eq!(read(&file, GRANULE, 10), Err(expected));
        reads(&file, GRANULE, 10);
    }
}

#[test]
fn too_much_is_ignored() {
    let server = HttpServer::start(content(), |number, _, right| match number {
        1 => HttpAnswer {
            body: [&right.body[..], b"more"].concat(),
            ..right
        }
        .without("content-length")
        .cut(usize::MAX, HttpEnd::Closed),
        _ => right,
    });
    let file = open(&server, patient()).unwrap();
    reads(&file, GRANULE, 10);
    assert_eq!(server.requests().len(), 2);
}

/// An answer that does not show its end is not waited for: with one connection for reading, the second
/// read would have to wait until the first answer is given up.
#[test]
fn an_end_that_does_not_come_is_not_waited_for() {
    let server = HttpServer::start(content(), |number, _, right| match number {
        1 => right
            .without("content-length")
            .cut(usize::MAX, HttpEnd::Silent),
        _ => right,
    });
    let limits = Limits {
        silence: Duration::from_secs(1000),
        ..patient()
    };
    let budget = Budget {
        connections: 1,
        ..Budget::default()
    };
    let file = open_within(budget, &server, limits);
    for granule in 1..3 {
        reads(&file, granule * GRANULE, 10);
    }
}

#[test]
fn a_replaced_file_is_noticed() {
    let changes: [Change; 3] = [
        |right| right.with("etag", "\"version-2\""),
        |right| right.with("content-range", "bytes 131072-262143/700000"),
        |right| right.with("last-modified", "Mon, 02 Jan 2023 00:00:00 GMT"),
    ];
    for change in changes {
        let server = HttpServer::start(content(), move |number, _, right| {
            let right = right.with("last-modified", "Sun, 01 Jan 2023 00:00:00 GMT");
            match number {
                0 => right,
                _ => change(right),
            }
        });
        let file = open(&server, patient()).unwrap();
        assert_eq!(read(&file, GRANULE, 10), Err(Error::Replaced));
        // What is here already is of the first version.
        reads(&file, 0, 10);
    }
}

/// Each version counts once: the same answer may come again and again, and machines behind a balancer may take turns with the
/// first version.
#[test]
fn changes_are_counted_where_they_are_tolerated() {
    const VERSIONS: [u8; 7] = [1, 2, 2, 1, 2, 3, 3];
    let server = HttpServer::start(content(), move |number, _, right| {
        right.with("etag", format!("\"{}\"", VERSIONS[number]))
    });
    let mut session = Session::default();
    session.tolerate_changes();
    let file = session.open(&server.url("/file").parse().unwrap()).unwrap();
    let counted = [1, 1, 1, 1, 2, 2].map(|_| {
        file.distrust(GRANULE..GRANULE + 10, &Given::default());
        reads(&file, GRANULE, 10);
        session.stats().changes
    });
    assert_eq!(counted, [1, 1, 1, 1, 2, 2]);
}

#[test]
fn an_unknown_size_is_refused_at_first_only() {
    let change = |right: HttpAnswer| {
        let range = right
            .headers
            .iter()
            .find(|(name, _)| name == "content-range");
        let range = range.unwrap().1.split_once('/').unwrap().0.to_owned();
        right.with("content-range", format!("{range}/*"))
    };
    let server = HttpServer::start(content(), move |_, _, right| change(right));
    assert_eq!(open(&server, patient()).err(), Some(Error::NoSize));
    let server = HttpServer::start(content(), move |number, _, right| match number {
        0 => right,
        _ => change(right),
    });
    reads(&open(&server, patient()).unwrap(), GRANULE, 10);
}

#[test]
fn an_empty_file_is_opened() {
    for status in [200, 416] {
        let server = HttpServer::start("", move |_, _, right| match status {
            200 => right.only_status(200),
            _ => right,
        });
        let file = open(&server, patient()).unwrap();
        assert_eq!(file.length(), 0);
        assert!(read(&file, 0, 0).unwrap().is_empty());
    }
}

#[test]
fn chunks_are_understood() {
    let server = HttpServer::start(content(), |_, _, right| {
        let mut body = Vec::new();
        for chunk in right.body.chunks(10_000) {
            body.extend(format!("{:x}\r\n", chunk.len()).bytes());
            body.extend(chunk);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\n\r\n");
        let right = right
            .without("content-length")
            .with("transfer-encoding", "chunked");
        HttpAnswer { body, ..right }
    });
    let file = open(&server, patient()).unwrap();
    reads(&file, 0, content().len());
}

#[test]
fn requests_say_what_they_want() {
    let server = HttpServer::honest(content());
    read(&open(&server, patient()).unwrap(), 5 * GRANULE, 1000).unwrap();
    let requests = server.requests();
    let ranges: Vec<_> = requests
        .iter()
        .map(|request| request.range.clone().unwrap())
        .collect();
    assert_eq!(ranges, [0..GRANULE, 5 * GRANULE..content().len() as u64]);
    for request in requests {
        let encoding = ("accept-encoding".to_owned(), "identity".to_owned());
        assert!(request.headers.contains(&encoding), "{request:?}");
    }
}

/// A server of a file of this size, all of whose bytes are 7.
fn server_of_size(size: u64) -> HttpServer {
    HttpServer::start([], move |_, request, right| {
        let asked = request.range.clone().unwrap();
        let part = asked.start..asked.end.min(size);
        let len = part.end - part.start;
        let range = format!("bytes {}-{}/{size}", part.start, part.end - 1);
        HttpAnswer {
            status: 206,
            body: vec![7; len as usize],
            ..right
        }
        .with("content-length", len)
        .with("content-range", range)
    })
}

#[test]
fn a_file_is_as_large_as_files_can_be() {
    for size in [MAX_SIZE + 1, u64::MAX - 511, u64::MAX] {
        let server = server_of_size(size);
        assert_eq!(open(&server, patient()).err(), Some(Error::Size { size }));
    }
    let server = server_of_size(MAX_SIZE);
    let file = open(&server, patient()).unwrap();
    assert_eq!(file.length(), MAX_SIZE);
    file.hint(MAX_SIZE - 3 * GRANULE..u64::MAX, Hint::Need);
    let last = 2 * GRANULE;
    let bytes = read(&file, MAX_SIZE - last, last as usize).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    assert_eq!(file.distrust(MAX_SIZE - 1..u64::MAX, &Given::default()), 1);
    let past = file.fetch(&mut [0; 2], MAX_SIZE - 1, Ask::default());
    assert!(past.is_err());
}

#[test]
fn an_encoded_file_is_not_fetched_whole() {
    let server = HttpServer::start(content(), |_, _, right| {
        right.with("content-encoding", "gzip")
    });
    let url = server.url("/file").parse().unwrap();
    let mut take = |_: &[u8], _, _| std::ops::ControlFlow::Continue(());
    let fetched = super::session(patient()).fetch_whole(&url, &mut take);
    assert_eq!(fetched, Err(Error::Encoded));
}
