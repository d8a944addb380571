//! Requesting the status of a verimount server.
//!
//! The request is an option of the NBD handshake, so it needs no second socket, which could be left
//! behind, be confused with that of another export, or need its own permissions: a client that may
//! use the disk may also read its status. Ending the server requires permission to send it a
//! signal, which the kernel checks.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use std::{
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

use thiserror::Error;
use verimount_sys::listening_process;
use zerocopy::{FromZeros, IntoBytes, big_endian::U32};

use crate::{
    clients::Until,
    protocol::{
        Greeting, HandshakeFlags, MAGIC, MAX_STATUS, OPTION_MAGIC, OPTION_REPLY_MAGIC,
        OptionHeader, OptionReply, option, reply,
    },
    socket::connect_to,
};

/// The status of a server, and its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The bytes that the export's `status` returned.
    pub status: Vec<u8>,
    /// The listening process, according to the kernel; `None` if it is in another PID namespace.
    pub process: Option<i32>,
}

/// Why the status is unavailable.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AskError {
    /// The server is not a verimount server.
    #[error("it is not a verimount export")]
    NotOurs,
    /// All places for clients are taken.
    #[error("all places for clients are taken")]
    Full,
    /// An I/O error.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Requests the status of the server at `socket`, with the time limit `time`.
///
/// # Errors
/// Any [`AskError`].
pub fn ask_status(socket: &Path, time: Duration) -> Result<Answer, AskError> {
    let stream = connect_to(socket)?;
    let process = listening_process(&stream)?;
    let status = ask(&mut Until::new(&stream, time))?;
    Ok(Answer { status, process })
}

fn ask(server: &mut (impl Read + Write)) -> Result<Vec<u8>, AskError> {
    let mut greeting = Greeting::new_zeroed();
    match server.read_exact(greeting.as_mut_bytes()) {
        // A server without a free place closes the connection at once.
        Err(error) if is_end(&error) => return Err(AskError::Full),
        other => other?,
    }
    let is_nbd = greeting.magic.get() == MAGIC && greeting.option_magic.get() == OPTION_MAGIC;
    let flags = HandshakeFlags::from_bits_truncate(greeting.flags.get().into());
    if !is_nbd || !flags.contains(HandshakeFlags::FIXED_NEWSTYLE) {
        return Err(AskError::NotOurs);
    }
    let flags = U32::new(HandshakeFlags::all().bits());
    let question = [flags.as_bytes(), header(option::STATUS).as_bytes()].concat();
    server.write_all(&question)?;
    let mut answer = OptionReply::new_zeroed();
    server.read_exact(answer.as_mut_bytes()).map_err(ended)?;
    let is_ours = answer.magic.get() == OPTION_REPLY_MAGIC
        && answer.option.get() == option::STATUS
        && answer.kind.get() == reply::STATUS
        && answer.len.get() <= MAX_STATUS;
    if !is_ours {
        return Err(AskError::NotOurs);
    }
    let mut status = vec![0; usize::try_from(answer.len.get()).unwrap_or(0)];
    server.read_exact(&mut status).map_err(ended)?;
    // The server may have closed the connection by now.
    let _ = server.write_all(header(option::ABORT).as_bytes());
    Ok(status)
}

fn header(option: u32) -> OptionHeader {
    OptionHeader {
        magic: OPTION_MAGIC.into(),
        option: option.into(),
        len: U32::ZERO,
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
}

/// Another server may close the connection on an unknown option.
fn ended(error: io::Error) -> AskError {
    match is_end(&error) {
        true => AskError::NotOurs,
        false => AskError::System(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends fixed bytes, whatever it receives.
    struct Says<'a>(&'a [u8]);

    impl Read for Says<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }
    }

    impl Write for Says<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn answer(kind: u32, len: u32, status: &[u8]) -> Vec<u8> {
        let numbers = [option::STATUS, kind, len].map(u32::to_be_bytes).concat();
        let magic = OPTION_REPLY_MAGIC.to_be_bytes();
        [b"NBDMAGICIHAVEOPT\0\x03", &magic[..], &numbers, status].concat()
    }

    #[test]
    fn only_what_is_an_answer_is_taken_for_one() {
        let right = answer(reply::STATUS, 2, b"ok");
        assert_eq!(ask(&mut Says(&right)).unwrap(), b"ok");
        for len in 0..right.len() {
            assert!(ask(&mut Says(&right[..len])).is_err(), "{len}");
        }
        assert!(matches!(ask(&mut Says(b"")), Err(AskError::Full)));
        for wrong in [
            answer(reply::ERR_UNSUP, 0, b""),
            answer(reply::ACK, 2, b"ok"),
            answer(reply::STATUS, MAX_STATUS + 1, &[0; 100_000]),
            answer(reply::STATUS, u32::MAX, b"ok"),
            [b"NBDMAGICIHAVEOPT\0\x02", &right[18..]].concat(),
            [b"NBDMAGIC\0\0B\x02\x81\x86\x12S\0\x03", &right[18..]].concat(),
            b"SSH-2.0-OpenSSH_10.0p2 Debian-7\r\n".to_vec(),
        ] {
            let asked = ask(&mut Says(&wrong));
            assert!(matches!(asked, Err(AskError::NotOurs)), "{asked:?}");
        }
    }
}
