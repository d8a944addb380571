//! The side of a client that asks an export for an option of its own.
//!
//! Such an option needs no second socket, which could be left behind, be confused with that of another export, or
//! need its own permissions: a client that may use the disk may also ask for what its export tells.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use std::io::{self, Read, Write};

use zerocopy::{FromZeros, IntoBytes, big_endian::U32};

pub use crate::{socket::connect, until::Until};

use crate::protocol::{
    Greeting, HandshakeFlags, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionHeader, OptionReply,
    option, reply,
};

/// What a server replies to an option of its export's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// What the export tells.
    Told(Vec<u8>),
    /// It has told everything.
    Done,
    /// It tells others already.
    Busy,
    /// Anything else, such as that it does not know the option.
    Other,
}

/// Greets a server, and asks it for an option without data.
///
/// # Errors
/// I/O errors. A server without a free place for clients closes the connection at once;
/// [`io::ErrorKind::InvalidData`] if it is no NBD server.
pub fn ask(server: &mut (impl Read + Write), option: u32) -> io::Result<()> {
    let mut greeting = Greeting::new_zeroed();
    server.read_exact(greeting.as_mut_bytes())?;
    let is_nbd = greeting.magic.get() == MAGIC && greeting.option_magic.get() == OPTION_MAGIC;
    let flags = HandshakeFlags::from_bits_truncate(greeting.flags.get().into());
    if !is_nbd || !flags.contains(HandshakeFlags::FIXED_NEWSTYLE) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let flags = U32::new(HandshakeFlags::all().bits());
    server.write_all(&[flags.as_bytes(), header(option).as_bytes()].concat())
}

/// The next reply to an option, with at most `most` bytes.
///
/// # Errors
/// I/O errors; [`io::ErrorKind::InvalidData`] if it is no such reply.
pub fn read_reply(server: &mut impl Read, option: u32, most: u32) -> io::Result<Reply> {
    let mut header = OptionReply::new_zeroed();
    server.read_exact(header.as_mut_bytes())?;
    let is_reply = header.magic.get() == OPTION_REPLY_MAGIC && header.option.get() == option;
    let len = Some(header.len.get()).filter(|&len| is_reply && len <= most);
    let len = len.and_then(|len| usize::try_from(len).ok());
    let mut data = vec![0; len.ok_or(io::ErrorKind::InvalidData)?];
    server.read_exact(&mut data)?;
    Ok(match header.kind.get() {
        kind if kind == option => Reply::Told(data),
        reply::ACK => Reply::Done,
        reply::ERR_POLICY => Reply::Busy,
        _ => Reply::Other,
    })
}

/// Leaves a server during the handshake, which may have closed the connection by now.
pub fn leave(server: &mut impl Write) {
    let _ = server.write_all(header(option::ABORT).as_bytes());
}

fn header(option: u32) -> OptionHeader {
    OptionHeader {
        magic: OPTION_MAGIC.into(),
        option: option.into(),
        len: U32::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use verimount_testkit::when_told;

    use super::*;
    use crate::handshake::send_reply;

    const OPTION: u32 = 4711;

    #[test]
    fn only_servers_of_nbd_are_asked() {
        let asked = |greeting| {
            let asked = when_told(greeting, |server| ask(server, OPTION));
            asked.map_err(|error| error.kind())
        };
        assert_eq!(asked(b"NBDMAGICIHAVEOPT\0\x03"), Ok(()));
        assert_eq!(asked(b""), Err(io::ErrorKind::UnexpectedEof));
        for wrong in [
            &b"NBDMAGICIHAVEOPT\0\x02"[..],
            b"NBDMAGIC\0\0B\x02\x81\x86\x12S\0\x03",
            b"SSH-2.0-OpenSSH_10.0p2 Debian-7\r\n",
        ] {
            assert_eq!(asked(wrong), Err(io::ErrorKind::InvalidData), "{wrong:?}");
        }
    }

    fn reply_of(kind: u32, data: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        send_reply(&mut sent, OPTION, kind, data).unwrap();
        sent
    }

    fn read(mut sent: &[u8]) -> Result<Reply, io::ErrorKind> {
        read_reply(&mut sent, OPTION, 5).map_err(|error| error.kind())
    }

    #[test]
    fn replies_are_read_as_they_were_sent() {
        let told = reply_of(OPTION, b"first");
        assert_eq!(read(&told), Ok(Reply::Told(b"first".to_vec())));
        for len in 0..told.len() {
            assert_eq!(read(&told[..len]), Err(io::ErrorKind::UnexpectedEof));
        }
        assert_eq!(read(&reply_of(reply::ACK, b"")), Ok(Reply::Done));
        assert_eq!(read(&reply_of(reply::ERR_POLICY, b"")), Ok(Reply::Busy));
        assert_eq!(read(&reply_of(reply::ERR_UNSUP, b"")), Ok(Reply::Other));
    }

    #[test]
    fn what_is_no_reply_is_not_taken_for_one() {
        let too_long = reply_of(OPTION, b"longer");
        let mut wrong_magic = reply_of(reply::ACK, b"");
        wrong_magic[0] ^= 1;
        let mut wrong_option = reply_of(reply::ACK, b"");
        wrong_option[8] ^= 1;
        for wrong in [too_long, wrong_magic, wrong_option] {
            assert_eq!(read(&wrong), Err(io::ErrorKind::InvalidData));
        }
    }
}
