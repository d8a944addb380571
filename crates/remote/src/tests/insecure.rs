//! Why a connection is not secure is said in plain words.

use std::{io::Write, net::TcpListener, thread};

use verimount_testkit::HttpServer;

use super::{content, open, patient, session};
use crate::Error;

#[test]
fn an_authority_that_nobody_here_knows_is_not_trusted() {
    let server = HttpServer::encrypted(content());
    let reason = "the server's certificate is of an authority that is not trusted here";
    let expected = Error::Tls(reason.to_owned());
    assert_eq!(open(&server, patient()).err(), Some(expected));
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
