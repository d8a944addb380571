use std::{
    ffi::OsString,
    io,
    ops::Range,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::PathBuf,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    net::{RecvFlags, SendFlags, recv, send},
};

/// The most bytes of an image, or of a path, in a message.
pub(super) const MAX_BYTES: usize = 64 << 10;

/// How long the other process may say nothing while it is waited for.
const SILENCE: Timespec = Timespec {
    tv_sec: 15,
    tv_nsec: 0,
};

/// What one of the processes tells the other, in one packet: a byte for what it is, and numbers, each of eight bytes, or bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Which file has bytes of this range of an image of this size?
    Find { range: Range<u64>, size: u64 },
    /// Which bytes are there?
    Read { offset: u64, len: u32 },
    /// These, or they cannot be read.
    Bytes(Option<Vec<u8>>),
    /// This file, or none.
    Found(Option<PathBuf>),
}

const FIND: u8 = 0;
const READ: u8 = 1;
const BYTES: u8 = 2;
const NO_BYTES: u8 = 3;
const FOUND: u8 = 4;
const NOT_FOUND: u8 = 5;

impl Message {
    /// # Errors
    /// The system's.
    pub(super) fn send(&self, to: &OwnedFd) -> io::Result<()> {
        let packet = self.packet();
        retry_on_intr(|| send(to, &packet, SendFlags::NOSIGNAL))?;
        Ok(())
    }

    /// Receives one, whenever it comes.
    ///
    /// # Errors
    /// The system's; `InvalidData` for what is none, and at the end of the other process.
    pub(super) fn receive(from: &OwnedFd) -> io::Result<Self> {
        // One byte more, of what is too long.
        let mut packet = vec![0; 1 + MAX_BYTES + 1];
        let (len, _) = retry_on_intr(|| recv(from, &mut packet[..], RecvFlags::empty()))?;
        packet.truncate(len);
        Self::parse(&packet).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Receives one that is being waited for.
    ///
    /// # Errors
    /// As [`Self::receive`], and `TimedOut`.
    pub(super) fn receive_in_time(from: &OwnedFd) -> io::Result<Self> {
        let mut waiting = [PollFd::new(from, PollFlags::IN)];
        if retry_on_intr(|| poll(&mut waiting, Some(&SILENCE)))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Self::receive(from)
    }

    fn packet(&self) -> Vec<u8> {
        let numbers = |kind: u8, numbers: &[u64]| {
            let numbers = numbers.iter().flat_map(|number| number.to_ne_bytes());
            [kind].into_iter().chain(numbers).collect()
        };
        let bytes = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
        match self {
            Self::Find { range, size } => numbers(FIND, &[range.start, range.end, *size]),
            Self::Read { offset, len } => numbers(READ, &[*offset, (*len).into()]),
            Self::Bytes(Some(given)) => bytes(BYTES, given),
            Self::Bytes(None) => vec![NO_BYTES],
            Self::Found(Some(path)) => bytes(FOUND, path.as_os_str().as_bytes()),
            Self::Found(None) => vec![NOT_FOUND],
        }
    }

    fn parse(packet: &[u8]) -> Option<Self> {
        let (kind, rest) = packet.split_first()?;
        let (numbers, none) = rest.as_chunks();
        let numbers: Vec<_> = numbers.iter().copied().map(u64::from_ne_bytes).collect();
        match (*kind, &numbers[..], none) {
            (FIND, &[start, end, size], []) => Some(Self::Find {
                range: start..end,
                size,
            }),
            (READ, &[offset, len], []) => Some(Self::Read {
                offset,
                len: len.try_into().ok()?,
            }),
            (BYTES, ..) if rest.len() <= MAX_BYTES => Some(Self::Bytes(Some(rest.to_vec()))),
            (NO_BYTES, [], []) => Some(Self::Bytes(None)),
            (FOUND, ..) if rest.len() <= MAX_BYTES => {
                let path = OsString::from_vec(rest.to_vec());
                Some(Self::Found(Some(path.into())))
            }
            (NOT_FOUND, [], []) => Some(Self::Found(None)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        for message in [
            Message::Find {
                range: 1..u64::MAX,
                size: 3,
            },
            Message::Read { offset: 7, len: 8 },
            Message::Bytes(Some(vec![1; MAX_BYTES])),
            Message::Bytes(Some(Vec::new())),
            Message::Bytes(None),
            Message::Found(Some("/a/b".into())),
            Message::Found(None),
        ] {
            assert_eq!(Message::parse(&message.packet()), Some(message));
        }
    }

    #[test]
    fn nothing_else_is_a_message() {
        let long = Message::Bytes(Some(vec![0; MAX_BYTES + 1])).packet();
        let wide = [&[READ][..], &[0; 8], &[255; 8]].concat();
        for packet in [
            &[][..],
            &[FIND],
            &[READ, 1],
            &[NO_BYTES, 0],
            &[9],
            &long,
            &wide,
        ] {
            assert_eq!(Message::parse(packet), None, "{:?}", packet.first());
        }
    }
}
