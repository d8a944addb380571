//! Why a connection is not secure is said in plain words.

use std::{io::Write, net::TcpListener, thread};

use verimount_source::GRANULE;
use verimount_testkit::HttpServer;

use super::{content, open, patient, reads, session};
use crate::{Error, RemoteOptions, Session};

/// A certificate that nothing was signed by.
const NOBODY: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

#[test]
fn an_authority_that_nobody_here_knows_is_not_trusted() {
    let server = HttpServer::encrypted(content());
    let reason = "the server's certificate is of an authority that is not trusted here";
    let expected = Error::Tls(reason.to_owned());
    assert_eq!(open(&server, patient()).err(), Some(expected));
}

#[test]
fn authorities_are_read_again_when_a_certificate_is_not_accepted() {
    let server = HttpServer::encrypted(content());
    let url = server.url("/file").parse().unwrap();
    let open = |read: &'static str| {
        let mut options = RemoteOptions {
            authorities: Some(NOBODY.parse().unwrap()),
            ..RemoteOptions::default()
        };
        options.read_authorities_again(move || Ok(read.to_owned()));
        Session::with_limits(options, patient()).open(&url)
    };
    assert!(matches!(open(NOBODY).err(), Some(Error::Tls(_))));
    let file = open(HttpServer::CERTIFICATE).unwrap();
    reads(&file, GRANULE, 10);
}

#[test]
fn a_server_may_not_speak_tls() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/file", server.local_addr().unwrap());
    // As web servers answer what they cannot read. A client of another test may come here first, if its own server is gone.
    thread::spawn(move || {
        let mut answered = Vec::new();
        for mut connection in server.incoming().flatten() {
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            answered.push(connection);
        }
    });
    let opened = session(patient()).open(&url.parse().unwrap());
    let expected = Error::Tls("the server does not speak TLS at this port".to_owned());
    assert_eq!(opened.err(), Some(expected));
}
