//! Redirects, and which requests have the session's headers.

use std::sync::Arc;

use verimount_source::GRANULE;
use verimount_sync::Mutex;
use verimount_testkit::{HttpAnswer, HttpRequest, HttpServer};

use super::{content, patient, read, reads, session};
use crate::{Error, RemoteOptions, Session};

fn paths(server: &HttpServer) -> Vec<String> {
    server
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect()
}

fn redirect(right: HttpAnswer, location: &str) -> HttpAnswer {
    right.only_status(302).with("location", location)
}

#[test]
fn where_a_redirect_leads_is_kept() {
    for status in [301, 302, 303, 307, 308] {
        let server = HttpServer::start(content(), move |_, request, right| {
            match request.path.as_str() {
                "/a/file?key" => redirect(right.only_status(status), "../b/file?signature"),
                _ => right,
            }
        });
        let url = server.url("/a/file?key").parse().unwrap();
        let file = session(patient()).open(&url).unwrap();
        for granule in 0..3 {
            reads(&file, granule * GRANULE, 10);
        }
        let moved = "/b/file?signature";
        assert_eq!(paths(&server), ["/a/file?key", moved, moved, moved]);
    }
}

#[test]
fn it_is_looked_up_again_when_it_is_refused() {
    for status in [401, 403, 404, 410] {
        let server = HttpServer::start(content(), move |number, request, right| {
            match (request.path.as_str(), number) {
                ("/file", 0) => redirect(right, "/first"),
                ("/file", _) => redirect(right, "/second"),
                ("/first", 2..) => right.only_status(status),
                _ => right,
            }
        });
        let url = server.url("/file").parse().unwrap();
        let file = session(patient()).open(&url).unwrap();
        reads(&file, GRANULE, 10);
        let expected = ["/file", "/first", "/first", "/file", "/second"];
        assert_eq!(paths(&server), expected);
    }
}

#[test]
fn a_redirect_to_nowhere_is_refused() {
    for location in [None, Some("ftp://host/file"), Some("http://me:pass@host/")] {
        let server = HttpServer::start(content(), move |_, _, right| match location {
            Some(location) => redirect(right, location),
            None => right.only_status(302),
        });
        let url = server.url("/file").parse().unwrap();
        let error = session(patient()).open(&url).err();
        assert_eq!(error, Some(Error::Redirects));
    }
}

fn with_key() -> Session {
    let options = RemoteOptions {
        headers: "X-Key: secret".parse().unwrap(),
        ..RemoteOptions::default()
    };
    Session::with_limits(options, patient())
}

/// A token expires, and the file has a new one by then; or none that is accepted.
#[test]
fn headers_that_are_refused_are_read_again() {
    for status in [401, 403] {
        let server = HttpServer::start(content(), move |number, request, right| {
            let token = if number < 2 { "first" } else { "second" };
            let header = ("x-key".to_owned(), token.to_owned());
            if request.headers.contains(&header) {
                right
            } else {
                right.only_status(status)
            }
        });
        let file = Arc::new(Mutex::new("X-Key: first"));
        let mut options = RemoteOptions {
            headers: file.lock().parse().unwrap(),
            ..RemoteOptions::default()
        };
        let reading = file.clone();
        options.read_headers_again(move || Ok(reading.lock().to_string()));
        let session = Session::with_limits(options, patient());
        let url = server.url("/file").parse().unwrap();
        let opened = session.open(&url).unwrap();
        reads(&opened, GRANULE, 10);
        // The last one is what a writer leaves who has just begun.
        for text in ["X-Key: first", "no header", ""] {
            *file.lock() = text;
            let refused = read(&opened, 2 * GRANULE, 10).unwrap_err();
            assert!(refused.is_refusal(), "{text}: {refused}");
        }
        *file.lock() = "X-Key: second";
        reads(&opened, 2 * GRANULE, 10);
        reads(&opened, 3 * GRANULE, 10);
    }
}

fn has_key(request: &HttpRequest) -> bool {
    let key = ("x-key".to_owned(), "secret".to_owned());
    request.headers.contains(&key)
}

#[test]
fn secrets_are_not_sent_where_a_redirect_leads() {
    let elsewhere = HttpServer::honest(content());
    let location = elsewhere.url("/file");
    let server = HttpServer::start(content(), move |_, request, right| {
        match request.path.as_str() {
            "/other" => redirect(right, "/file"),
            "/file" => redirect(right, &location),
            _ => right,
        }
    });
    let session = with_key();
    session
        .open(&server.url("/other").parse().unwrap())
        .unwrap();
    assert_eq!(server.requests().len(), 2);
    assert!(server.requests().iter().all(has_key));
    assert_eq!(elsewhere.requests().len(), 1);
    assert!(!elsewhere.requests().iter().any(has_key));
}

#[test]
fn secrets_are_not_sent_unencrypted() {
    let url = "http://192.0.2.1/file".parse().unwrap();
    assert_eq!(with_key().open(&url).err(), Some(Error::Unencrypted));
}

#[test]
fn secrets_for_one_server_are_not_sent_to_others() {
    let [named, other] = [(); 2].map(|()| HttpServer::honest(content()));
    let url = |server: &HttpServer| server.url("/file").parse().unwrap();
    let mut session = with_key();
    session.send_headers_to(Some(url(&named)));
    for server in [&named, &other] {
        session.open(&url(server)).unwrap();
    }
    assert!(named.requests().iter().all(has_key));
    assert!(!other.requests().iter().any(has_key));
}
