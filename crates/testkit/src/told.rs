//! A peer that says one thing.

use std::{io::Write, net::Shutdown, os::unix::net::UnixStream};

/// What comes of `ask` if the server sends these bytes, whatever it receives.
pub fn when_told<T>(bytes: &[u8], ask: impl FnOnce(&mut UnixStream) -> T) -> T {
    let (mut client, mut server) = UnixStream::pair().unwrap();
    server.write_all(bytes).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    ask(&mut client)
}
