//! Options of the handshake that NBD does not define, but an export.

use std::{io, os::unix::net::UnixStream, time::Duration};

use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};

use crate::{handshake::send_reply, protocol::reply, until::Until};

/// How an export answers an option of its own, see [`Export::own_option`](crate::Export::own_option).
/// The kind of each reply is the number of the option.
pub enum OwnOption<'a> {
    /// With one reply, after which the handshake goes on.
    Reply(Vec<u8>),
    /// With replies for as long as it takes, instead of requests.
    Talk(Talk<'a>),
}

/// Sends replies until it ends, and then `NBD_REP_ACK` follows, or until one cannot be sent. It should send some
/// from time to time, because only sending reveals that the client left.
pub type Talk<'a> = Box<dyn FnOnce(&mut Tell<'_>) -> io::Result<()> + 'a>;

/// Sends a reply.
pub type Tell<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// Has `talk` answer a client, which has `time` to take each reply.
pub(crate) fn serve(
    stream: &UnixStream,
    option: u32,
    talk: Talk<'_>,
    time: Duration,
) -> io::Result<()> {
    let tell = |kind, data: &[u8]| send_reply(&mut Until::new(stream, time), option, kind, data);
    let told = talk(&mut |data| {
        if has_left(stream) {
            Err(io::ErrorKind::ConnectionAborted.into())
        } else {
            tell(option, data)
        }
    });
    match told {
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
