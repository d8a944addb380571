use std::{
    fs::File,
    io::{self, IoSlice},
    iter,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read, writev},
};
use zerocopy::IntoBytes;

use crate::abi::OutHeader;

/// An open `/dev/fuse`. A request is answered on the descriptor from which it was read.
pub(crate) struct Device(OwnedFd);

impl Device {
    pub(crate) fn new(device: OwnedFd) -> Self {
        Self(device)
    }

    /// One more descriptor for the same mount.
    ///
    /// # Errors
    /// The system's error. On some systems only root may open `/dev/fuse`.
    pub(crate) fn clone_connection(&self) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        verimount_sys::clone_fuse_device(&device, &self.0)?;
        Ok(Self(device.into()))
    }

    /// Waits for a request and reads it into `buffer`. Returns its length, or `None` at the end of the
    /// mount.
    ///
    /// # Errors
    /// The system's error, except those that only ask for a retry.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match read(&self.0, &mut *buffer) {
                Ok(len) => return Ok(Some(len)),
                // ECONNABORTED: the mount ended while a request was being read.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                // ENOENT: the caller gave up before the request was read.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether the mount has ended.
    pub(crate) fn is_over(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // Errors are reported even if nothing is asked for.
        poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
    }

    /// Answers the request `unique`.
    pub(crate) fn reply(&self, unique: u64, answer: Result<&[u8], Errno>) {
        let header = OutHeader::of(unique, answer);
        let parts = [header.as_bytes(), answer.unwrap_or_default()];
        match writev(&self.0, &parts.map(IoSlice::new)) {
            // ENOENT: the caller has given up. ENODEV: unmounted.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(error) => tracing::error!(%error, "answering the kernel"),
        }
    }

    /// Tells the kernel something that it has not asked for.
    pub(crate) fn notify(&self, code: i32, told: &[&[u8]]) {
        let len = size_of::<OutHeader>() + told.iter().map(|part| part.len()).sum::<usize>();
        let header = OutHeader {
            len: len as u32,
            error: code,
            unique: 0,
        };
        let parts = iter::once(header.as_bytes()).chain(told.iter().copied());
        let parts: Vec<_> = parts.map(IoSlice::new).collect();
        match writev(&self.0, &parts) {
            // ENOENT: it does not know that file. ENODEV: unmounted.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(error) => tracing::error!(%error, "telling the kernel"),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
