//! Checks of an export, which its process makes while clients use it.
//!
//! Like the status, a check is asked for with an option of the handshake. The replies are messages
//! of the export; the last one says that all of it was checked.

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
    io::{self, Read},
    ops::ControlFlow,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use zerocopy::{FromZeros, IntoBytes};

use crate::{
    AskError, Export, MAX_CHECK_MESSAGE,
    clients::Until,
    handshake::send_reply,
    protocol::{OPTION_REPLY_MAGIC, OptionReply, option, reply},
    socket::connect_to,
    status::{choose, is_end},
};

/// How long to wait for a message before the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(200);

/// Checks `export` for a client, which has `time` to take each message.
pub(crate) fn serve(stream: &UnixStream, export: &impl Export, time: Duration) -> io::Result<()> {
    let tell = |kind, message: &[u8]| {
        if message.len() > MAX_CHECK_MESSAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        send_reply(&mut Until::new(stream, time), option::CHECK, kind, message)
    };
    let checked = export.check(&mut |message| match has_left(stream) {
        true => Err(io::ErrorKind::ConnectionAborted.into()),
        false => tell(reply::CHECK, message),
    });
    match checked {
        Ok(()) => tell(reply::ACK, &[]),
        // It needs no reason to leave.
        Err(_) if has_left(stream) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether the client has closed the connection, or the server is ending. Anything that the client
/// says is an end, too: the handshake is over.
fn has_left(stream: &UnixStream) -> bool {
    let received = recv(stream, &mut [0_u8], RecvFlags::DONTWAIT | RecvFlags::PEEK);
    !matches!(received, Err(Errno::AGAIN | Errno::INTR))
}

/// Has the process that listens at `socket` check its export, and passes each of its messages to
/// `heard`, and `None` if there was none for a moment. The server has `time` for the handshake; a
/// check may take any time, until `heard` cancels it.
///
/// # Errors
/// Any [`AskError`].
pub fn ask_check(
    socket: &Path,
    time: Duration,
    heard: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>,
) -> Result<(), AskError> {
    let stream = connect_to(socket)?;
    choose(&mut Until::new(&stream, time), option::CHECK)?;
    stream.set_write_timeout(None)?;
    stream.set_read_timeout(Some(TICK))?;
    listen(&stream, heard)
}

/// Passes on messages until the last one.
fn listen(
    mut server: impl Read,
    heard: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>,
) -> Result<(), AskError> {
    loop {
        let mut header = OptionReply::new_zeroed();
        fill(&mut server, header.as_mut_bytes(), heard)?;
        let len = usize::try_from(header.len.get()).unwrap_or(usize::MAX);
        if header.magic.get() != OPTION_REPLY_MAGIC
            || header.option.get() != option::CHECK
            || len > MAX_CHECK_MESSAGE
        {
            return Err(AskError::NotOurs);
        }
        let mut message = vec![0; len];
        fill(&mut server, &mut message, heard)?;
        match header.kind.get() {
            reply::CHECK => go_on(heard(Some(&message)))?,
            reply::ACK => return Ok(()),
            reply::ERR_POLICY => return Err(AskError::Checking),
            _ => return Err(AskError::NotOurs),
        }
    }
}

/// Fills `buf`, for which the server may take any time, while the caller is asked whether to go on.
fn fill(
    server: &mut impl Read,
    mut buf: &mut [u8],
    heard: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>,
) -> Result<(), AskError> {
    while !buf.is_empty() {
        match server.read(buf) {
            Ok(0) => return Err(AskError::Ended),
            Ok(len) => buf = buf.get_mut(len..).unwrap_or_default(),
            Err(error) if is_pause(&error) => go_on(heard(None))?,
            Err(error) if is_end(&error) => return Err(AskError::Ended),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn go_on(flow: ControlFlow<()>) -> Result<(), AskError> {
    match flow.is_break() {
        true => Err(AskError::Cancelled),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply_of(kind: u32, data: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        send_reply(&mut sent, option::CHECK, kind, data).unwrap();
        sent
    }

    fn listen_to(sent: &[u8]) -> (Vec<Vec<u8>>, Result<(), AskError>) {
        let mut messages = Vec::new();
        let listened = listen(sent, &mut |message| {
            messages.push(message.unwrap().to_vec());
            ControlFlow::Continue(())
        });
        (messages, listened)
    }

    #[test]
    fn messages_come_as_they_were_sent_until_the_last() {
        let last = reply_of(reply::ACK, b"");
        let sent = [
            reply_of(reply::CHECK, b"first"),
            reply_of(reply::CHECK, b""),
            last.clone(),
        ];
        let sent = sent.concat();
        let (messages, listened) = listen_to(&sent);
        listened.unwrap();
        assert_eq!(messages, [&b"first"[..], b""]);
        for len in 0..sent.len() {
            let (_, listened) = listen_to(&sent[..len]);
            assert!(matches!(listened, Err(AskError::Ended)), "{listened:?}");
        }
        let longest = reply_of(reply::CHECK, &[7; MAX_CHECK_MESSAGE]);
        listen_to(&[longest, last].concat()).1.unwrap();
    }

    #[test]
    fn what_is_no_message_is_not_taken_for_one() {
        let too_long = reply_of(reply::CHECK, &[7; MAX_CHECK_MESSAGE + 1]);
        let mut wrong_magic = reply_of(reply::ACK, b"");
        wrong_magic[0] ^= 1;
        let mut wrong_option = reply_of(reply::ACK, b"");
        wrong_option[8] ^= 1;
        let unknown = reply_of(reply::ERR_UNSUP, b"");
        for wrong in [too_long, wrong_magic, wrong_option, unknown] {
            let (messages, listened) = listen_to(&wrong);
            assert!(messages.is_empty());
            assert!(matches!(listened, Err(AskError::NotOurs)), "{listened:?}");
        }
        let (_, listened) = listen_to(&reply_of(reply::ERR_POLICY, b""));
        assert!(matches!(listened, Err(AskError::Checking)), "{listened:?}");
    }

    #[test]
    fn the_caller_can_cancel() {
        let sent = reply_of(reply::CHECK, b"first");
        let cancelled = listen(&sent[..], &mut |_| ControlFlow::Break(()));
        assert!(matches!(cancelled, Err(AskError::Cancelled)));
    }
}
