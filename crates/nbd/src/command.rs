//! Performs requests on the export, and maps their results to answers.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use std::io;

use rustix::io::Errno;
use zerocopy::big_endian::U64;

use crate::{
    Export,
    protocol::{CommandFlags, MAX_REQUEST, REQUEST_MAGIC, RequestHeader, command},
};

/// The header of a valid request.
pub(crate) struct Request(RequestHeader);

impl Request {
    /// Validates a received request header.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] for a wrong magic number or a write that is too long. The
    /// position of the next request is then unknown.
    pub(crate) fn parse(header: RequestHeader) -> io::Result<Self> {
        let brings_too_much = header.command == command::WRITE && header.len > MAX_REQUEST;
        if header.magic != REQUEST_MAGIC || brings_too_much {
            let reason = "malformed request from the client";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(Self(header))
    }

    /// What its answer must repeat.
    pub(crate) fn cookie(&self) -> U64 {
        self.0.cookie
    }

    /// Whether this is a disconnect: no more requests follow, and no answer is expected.
    pub(crate) fn is_last(&self) -> bool {
        self.0.command == command::DISCONNECT
    }

    /// The length of the data that follows the header, in bytes.
    pub(crate) fn data_len(&self) -> usize {
        match self.0.command.get() {
            command::WRITE => self.len(),
            _ => 0,
        }
    }

    /// The length of the buffer for its data or the data of its answer, in bytes.
    pub(crate) fn buffer_len(&self) -> usize {
        match self.0.command.get() {
            command::WRITE => self.len(),
            command::READ if self.0.len <= MAX_REQUEST => self.len(),
            _ => 0,
        }
    }

    /// Performs the request on `export`. `buffer` has at least [`Self::buffer_len`] bytes, and
    /// holds the data of a write. Returns the number of bytes at its beginning that are the answer.
    ///
    /// # Errors
    /// The error for the client.
    pub(crate) fn perform(&self, export: &impl Export, buffer: &mut [u8]) -> Result<usize, Errno> {
        let flags = CommandFlags::from_bits(self.0.flags.get()).ok_or(Errno::INVAL)?;
        let changes = !matches!(self.0.command.get(), command::READ | command::FLUSH);
        if changes && export.is_read_only() {
            return Err(Errno::PERM);
        }
        self.check_range(export.size(), changes)?;
        let (offset, len) = (self.0.offset.get(), self.0.len.get());
        match self.0.command.get() {
            command::READ if self.0.len > MAX_REQUEST => return Err(Errno::INVAL),
            command::READ => {
                export.read(part(buffer, self.len())?, offset)?;
                return Ok(self.len());
            }
            command::WRITE => export.write(part(buffer, self.len())?, offset)?,
            command::FLUSH => export.flush()?,
            command::TRIM if export.can_trim() => export.trim(offset, len.into())?,
            command::WRITE_ZEROES => export.write_zeroes(offset, len.into())?,
            _ => return Err(Errno::INVAL),
        }
        if changes && flags.contains(CommandFlags::FUA) {
            export.flush()?;
        }
        Ok(0)
    }

    fn check_range(&self, size: u64, changes: bool) -> Result<(), Errno> {
        match self.0.offset.get().checked_add(self.0.len.into()) {
            Some(end) if end <= size => Ok(()),
            _ if changes => Err(Errno::NOSPC),
            _ => Err(Errno::INVAL),
        }
    }

    fn len(&self) -> usize {
        // 32 bits fit on all supported machines.
        usize::try_from(self.0.len.get()).unwrap_or(usize::MAX)
    }
}

/// The first `len` bytes of the buffer, which is long enough.
fn part(buffer: &mut [u8], len: usize) -> Result<&mut [u8], Errno> {
    buffer.get_mut(..len).ok_or(Errno::NOMEM)
}

/// The NBD number of an error. NBD uses the numbers of Linux for the errors that it defines.
pub(crate) fn error_number(error: Errno) -> u32 {
    let named = match error {
        Errno::PERM
        | Errno::IO
        | Errno::NOMEM
        | Errno::INVAL
        | Errno::NOSPC
        | Errno::OVERFLOW
        | Errno::NOTSUP
        | Errno::SHUTDOWN => error,
        Errno::ROFS => Errno::PERM,
        Errno::DQUOT => Errno::NOSPC,
        _ => Errno::IO,
    };
    named.raw_os_error().unsigned_abs()
}
