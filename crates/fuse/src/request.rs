//! Decodes a request.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use rustix::{fs::OFlags, io::Errno};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::{
    Caller, EntryName, NodeId,
    abi::{InHeader, OpenIn, opcode},
    watch::RingRequest,
};

/// A request. None of the lengths that the kernel gives are trusted.
#[derive(Clone)]
pub(crate) struct Request<'b> {
    pub(crate) header: InHeader,
    /// The operation's structure, if it came separately and is not decoded yet.
    operation: &'b [u8],
    /// The other arguments that are not decoded yet.
    arguments: &'b [u8],
}

impl<'b> Request<'b> {
    /// The request that fills `bytes`.
    pub(crate) fn parse(bytes: &'b [u8]) -> Option<Self> {
        let (header, body) = InHeader::read_from_prefix(bytes).ok()?;
        if header.len as usize != bytes.len() {
            return None;
        }
        Some(Self {
            header,
            operation: &[],
            arguments: body,
        })
    }

    /// The request that came in three buffers, which begin with the header, the operation's structure
    /// and the arguments after it.
    pub(crate) fn parse_parts(
        header: &[u8],
        operation: &'b [u8],
        arguments: &'b [u8],
    ) -> Option<Self> {
        let (header, _) = InHeader::read_from_prefix(header).ok()?;
        let others = size_of::<InHeader>() + arguments.len();
        let operation = operation.get(..(header.len as usize).checked_sub(others)?)?;
        Some(Self {
            header,
            operation,
            arguments,
        })
    }

    /// Whether the kernel waits for an answer.
    pub(crate) fn is_answered(&self) -> bool {
        !matches!(self.header.opcode, opcode::FORGET | opcode::BATCH_FORGET)
    }

    /// Whether its caller may get an error while it is still running: if the request succeeds after
    /// that, it has no visible effect.
    pub(crate) fn can_be_abandoned(&self) -> bool {
        match self.header.opcode {
            opcode::LOOKUP
            | opcode::GETATTR
            | opcode::STATX
            | opcode::READLINK
            | opcode::READ
            | opcode::READDIR
            | opcode::READDIRPLUS
            | opcode::GETXATTR
            | opcode::LISTXATTR
            | opcode::STATFS
            | opcode::LSEEK
            | opcode::FSYNC
            | opcode::FSYNCDIR => true,
            opcode::OPEN => !truncates(self),
            _ => false,
        }
    }

    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.header.nodeid)
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller {
            uid: self.header.uid,
            gid: self.header.gid,
            pid: self.header.pid,
            request: self.header.unique,
        }
    }

    /// The next argument.
    ///
    /// # Errors
    /// `EIO` if the request is too short for it.
    pub(crate) fn take<T: FromBytes + Immutable + KnownLayout>(&mut self) -> Result<T, Errno> {
        let source = if self.operation.is_empty() {
            &mut self.arguments
        } else {
            &mut self.operation
        };
        let (value, rest) = T::read_from_prefix(source).map_err(|_| Errno::IO)?;
        *source = rest;
        Ok(value)
    }

    /// The next argument, which ends with a zero byte.
    ///
    /// # Errors
    /// `EIO` if there is none.
    pub(crate) fn take_name(&mut self) -> Result<&'b OsStr, Errno> {
        let end = self.arguments.iter().position(|&byte| byte == 0);
        let (name, rest) = self.arguments.split_at(end.ok_or(Errno::IO)?);
        self.arguments = &rest[1..];
        Ok(OsStr::from_bytes(name))
    }

    /// The next name, in the directory that the request is about.
    ///
    /// # Errors
    /// `EIO` if there is none.
    pub(crate) fn take_entry_name(&mut self) -> Result<EntryName<'b>, Errno> {
        Ok((self.node(), self.take_name()?))
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// `EIO` if there are fewer.
    pub(crate) fn take_bytes(&mut self, len: u32) -> Result<&'b [u8], Errno> {
        let parts = self.arguments.split_at_checked(len as usize);
        let (bytes, rest) = parts.ok_or(Errno::IO)?;
        self.arguments = rest;
        Ok(bytes)
    }
}

/// The longest arguments of a request that is copied, in bytes: any name that the kernel passes on.
const MAX_COPIED: usize = 4096;

/// A buffer for a copy of a request, which is used instead of the buffer in which it came.
#[derive(Default)]
pub(crate) struct RequestCopy {
    operation: Vec<u8>,
    arguments: Vec<u8>,
}

impl RequestCopy {
    /// A copy of a request that can be abandoned.
    pub(crate) fn abandonable(&mut self, received: &RingRequest) -> Option<Request<'_>> {
        let request = ring_request(received)?;
        if !request.can_be_abandoned() || received.payload().len() > MAX_COPIED {
            return None;
        }
        self.operation.clear();
        self.operation.extend_from_slice(received.operation());
        self.arguments.clear();
        self.arguments.extend_from_slice(received.payload());
        Request::parse_parts(received.header(), &self.operation, &self.arguments)
    }
}

/// Decodes the request that came through a ring.
pub(crate) fn ring_request(received: &RingRequest) -> Option<Request<'_>> {
    let (header, operation) = (received.header(), received.operation());
    Request::parse_parts(header, operation, received.payload())
}

/// Whether an open truncates the file.
fn truncates(open: &Request<'_>) -> bool {
    let open = open.clone().take::<OpenIn>();
    open.is_ok_and(|open| OFlags::from_bits_retain(open.flags).contains(OFlags::TRUNC))
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    fn request(body: &[u8]) -> Vec<u8> {
        let header = InHeader {
            len: (size_of::<InHeader>() + body.len()) as u32,
            opcode: opcode::LOOKUP,
            unique: 2,
            nodeid: 1,
            uid: 3,
            gid: 4,
            pid: 5,
            total_extlen: 0,
            padding: 0,
        };
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn arguments_are_taken_in_order() {
        let bytes = request(b"\x07\0\0\0\0\0\0\0a name\0rest");
        let mut request = Request::parse(&bytes).unwrap();
        assert_eq!(request.take::<u64>(), Ok(u64::from_le(7)));
        assert_eq!(request.take_name(), Ok(OsStr::new("a name")));
        assert_eq!(request.take_bytes(5), Err(Errno::IO));
        assert_eq!(request.take_bytes(4), Ok(&b"rest"[..]));
        assert_eq!(request.take_name(), Err(Errno::IO));
        assert_eq!(request.take::<u64>(), Err(Errno::IO));
    }

    #[test]
    fn a_request_in_parts_is_parsed() {
        let bytes = request(b"\x07\0\0\0\0\0\0\0a name\0");
        let (header, body) = bytes.split_at(size_of::<InHeader>());
        let (operation, name) = body.split_at(8);
        let room = [operation, &[9; 8]].concat();
        let mut request = Request::parse_parts(header, &room, name).unwrap();
        assert_eq!(request.take::<u64>(), Ok(u64::from_le(7)));
        assert_eq!(request.take_name(), Ok(OsStr::new("a name")));
        assert_eq!(request.take::<u64>(), Err(Errno::IO));

        assert!(Request::parse_parts(header, &room[..7], name).is_none());
        assert!(Request::parse_parts(header, &room, &[0; 16]).is_none());
        assert!(Request::parse_parts(&header[..39], &room, name).is_none());
    }

    #[test]
    fn requests_with_side_effects_cannot_be_abandoned() {
        let can_be = |opcode, body: &[u8]| {
            let mut bytes = request(body);
            bytes[4..8].copy_from_slice(&u32::to_ne_bytes(opcode));
            Request::parse(&bytes).unwrap().can_be_abandoned()
        };
        let open = |flags: OFlags| [flags.bits(), 0];
        assert!(can_be(opcode::READ, &[]));
        assert!(can_be(opcode::OPEN, open(OFlags::RDWR).as_bytes()));
        let truncating = open(OFlags::WRONLY | OFlags::TRUNC);
        assert!(!can_be(opcode::OPEN, truncating.as_bytes()));
        for changing in [
            opcode::WRITE,
            opcode::RENAME,
            opcode::CREATE,
            opcode::RELEASE,
        ] {
            assert!(!can_be(changing, &[0; 64]));
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let bytes = request(b"name\0");
        assert!(Request::parse(&bytes[..bytes.len() - 1]).is_none());
        assert!(Request::parse(&bytes[..30]).is_none());
    }
}
