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
use verimount_sys::{Listener, listener};
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
    /// Who listens, according to the kernel.
    pub listener: Listener,
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
    /// The maximum number of checks runs already.
    #[error("it is being checked already")]
    Checking,
    /// The server ended before the check was finished.
    #[error("the check ended early: the export was ended, or it could not go on")]
    Ended,
    /// Cancelled by the caller.
    #[error("cancelled")]
    Cancelled,
    /// An I/O error.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Requests the status of the server at `socket`, with the time limit `time`. If it must be a process
/// of `user`, no other is asked.
///
/// # Errors
/// Any [`AskError`] but those of checks; [`AskError::NotOurs`] for another user's process, too.
pub fn ask_status(socket: &Path, user: Option<u32>, time: Duration) -> Result<Answer, AskError> {
    let stream = connect_to(socket)?;
    let listener = listener(&stream)?;
    if user.is_some_and(|user| user != listener.user) {
        return Err(AskError::NotOurs);
    }
    let status = ask(&mut Until::new(&stream, time))?;
    Ok(Answer { status, listener })
}

fn ask(server: &mut (impl Read + Write)) -> Result<Vec<u8>, AskError> {
    choose(server, option::STATUS)?;
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

/// Greets a server, and asks it for an option without data.
pub(crate) fn choose(server: &mut (impl Read + Write), option: u32) -> Result<(), AskError> {
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
    let question = [flags.as_bytes(), header(option).as_bytes()].concat();
    Ok(server.write_all(&question)?)
}

fn header(option: u32) -> OptionHeader {
    OptionHeader {
        magic: OPTION_MAGIC.into(),
        option: option.into(),
        len: U32::ZERO,
    }
}

pub(crate) fn is_end(error: &io::Error) -> bool {
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
    fn only_valid_answers_are_accepted() {
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
