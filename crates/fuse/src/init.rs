//! INIT negotiation: the first request, in which both sides settle version, limits and capabilities.

use std::{io, num::NonZeroUsize, sync::Arc};

use rustix::{io::Errno, param::page_size};
use zerocopy::IntoBytes;

use crate::{
    Capabilities,
    abi::{InitIn, InitOut, MAJOR, MIN_READ_BUFFER, MINOR, OLDEST_MINOR, opcode},
    device::Device,
    queues::{Slot, slots},
    request::Request,
};

/// `FUSE_OVER_IO_URING`. If it is negotiated, the kernel sends no request until all queues are served.
const OVER_IO_URING: u64 = 1 << 41;

/// The minor version (Linux 6.16) from which on the kernel takes what it has found by a handle for outdated as soon as it comes by
/// again, as only what is found by a name gets the epoch of the mount. Above such a mount, overlays with `index` or `xino` fail with
/// ESTALE; above one without handles they do without.
const EPOCHS: u32 = 44;

/// The longest arguments besides file data, in bytes: value and name of an extended attribute.
const MAX_ARGUMENTS: usize = 64 * 1024 + 256;

/// Always requested: they change the layout of messages, or have no disadvantage.
const ALWAYS: Capabilities = Capabilities::ASYNC_READ
    .union(Capabilities::BIG_WRITES)
    .union(Capabilities::MAX_PAGES)
    .union(Capabilities::SETXATTR_EXT)
    .union(Capabilities::INIT_EXT);

/// The capabilities and limits that a file system requests from the kernel.
#[derive(Debug, Clone, Copy)]
pub struct SessionOptions {
    /// The requested capabilities; the kernel grants those that it supports.
    pub capabilities: Capabilities,
    /// The largest read, in bytes.
    pub max_read: u32,
    /// The largest write, in bytes; also the size of each thread's buffer.
    pub max_write: u32,
    /// How much the kernel may read ahead, in bytes.
    pub max_readahead: u32,
    /// How many background requests (for which no caller waits) the kernel may have in flight.
    pub max_background: u16,
    /// With [`Capabilities::PASSTHROUGH`]: over how many stacked file systems this one may be, 1 or 2.
    pub max_stack_depth: u32,
    /// With [`Capabilities::REQUEST_TIMEOUT`]: the time to answer a request, in seconds.
    pub request_timeout: u16,
    /// Which threads answer, and how.
    pub answering: Answering,
    /// Whether the file system [holds requests](crate::HELD); only with [`Answering::Fairly`].
    pub holds: bool,
}

/// Which threads answer the kernel, and through which transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// A fixed number of threads, through `/dev/fuse`.
    ByThreads,
    /// This many threads on each processor, through io_uring, if the system allows that and the
    /// largest request is at least 128 KiB; otherwise like [`Self::ByThreads`].
    ByProcessor(NonZeroUsize),
    /// A growing number of threads, through `/dev/fuse`, so that no user's requests block another's.
    /// When all threads wait, more are added. Each user gets a share of the threads; requests beyond it
    /// are queued without a thread. With io_uring a queued request would block others of its queue.
    Fairly,
}

/// Waits for the kernel's INIT request and answers it. Returns the granted capabilities, and slots in the kernel's io_uring
/// queues; if there are any, they must be served.
///
/// # Errors
/// `Unsupported` for a kernel before Linux 5.17; otherwise the system's error.
pub(crate) fn agree(
    device: &Arc<Device>,
    requested: &SessionOptions,
) -> io::Result<(Capabilities, Vec<Slot>)> {
    let (unique, offer) = receive_offer(device)?;
    if offer.major != MAJOR || offer.minor < OLDEST_MINOR {
        device.reply(unique, Err(Errno::PROTO));
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "this kernel speaks FUSE {}.{}; {MAJOR}.{OLDEST_MINOR} (Linux 5.17) is needed",
                offer.major, offer.minor
            ),
        ));
    }
    let offered = u64::from(offer.flags) | u64::from(offer.flags2) << 32;
    let granted =
        Capabilities::from_bits_truncate(offered) & wanted(offer.minor, requested.capabilities);
    let mut answer = answer(granted, &offer, requested);
    let queues = match offered & OVER_IO_URING {
        0 => Vec::new(),
        _ => queues(device, requested, payload_len(&answer)),
    };
    if !queues.is_empty() {
        answer.flags2 |= (OVER_IO_URING >> 32) as u32;
    }
    device.reply(unique, Ok(answer.as_bytes()));
    Ok((granted, queues))
}

/// What is wanted of a kernel with this minor version.
fn wanted(minor: u32, requested: Capabilities) -> Capabilities {
    let mut wanted = requested | ALWAYS;
    if minor >= EPOCHS && wanted.contains(Capabilities::EXPORT_SUPPORT) {
        wanted.remove(Capabilities::EXPORT_SUPPORT);
        wanted.insert(Capabilities::NO_EXPORT_SUPPORT);
    }
    wanted
}

/// Receives the INIT request: its number and its content.
fn receive_offer(device: &Device) -> io::Result<(u64, InitIn)> {
    let mut buffer = vec![0; MIN_READ_BUFFER];
    let Some(len) = device.receive(&mut buffer)? else {
        return Err(io::Error::other("unmounted before it was ready"));
    };
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "no FUSE INIT request");
    let mut request = Request::parse(&buffer[..len]).ok_or_else(invalid)?;
    if request.header.opcode != opcode::INIT {
        return Err(invalid());
    }
    let offer = request.take().map_err(|_| invalid())?;
    Ok((request.header.unique, offer))
}

/// Slots in the kernel's queues, fully set up: serving them cannot fail any more. None if io_uring is
/// not requested or not available.
fn queues(device: &Arc<Device>, requested: &SessionOptions, payload_len: usize) -> Vec<Slot> {
    let threads = match requested.answering {
        Answering::ByProcessor(threads) if payload_len >= MAX_ARGUMENTS => Some(threads),
        _ => None,
    };
    let slots = threads.map(|threads| slots(device, threads, payload_len));
    slots.transpose().map_or_else(
        |error| {
            tracing::info!(%error, "answering through /dev/fuse, not io_uring");
            Vec::new()
        },
        Option::unwrap_or_default,
    )
}

/// The buffer size that the kernel requires for the payload of a request or answer, in bytes.
fn payload_len(answer: &InitOut) -> usize {
    let pages = usize::from(answer.max_pages) * page_size();
    MIN_READ_BUFFER.max(answer.max_write as usize).max(pages)
}

fn answer(granted: Capabilities, offer: &InitIn, requested: &SessionOptions) -> InitOut {
    let flags = granted.bits();
    InitOut {
        major: MAJOR,
        minor: offer.minor.min(MINOR),
        max_readahead: requested.max_readahead.min(offer.max_readahead),
        // The low and the high half.
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        max_background: requested.max_background,
        congestion_threshold: requested.max_background / 4 * 3,
        max_write: requested.max_write,
        // Times have nanosecond granularity.
        time_gran: 1,
        max_pages: (requested.max_read.max(requested.max_write) as usize).div_ceil(page_size())
            as u16,
        // The kernel looks at it only with PASSTHROUGH.
        max_stack_depth: requested.max_stack_depth,
        // And at this only with REQUEST_TIMEOUT.
        request_timeout: requested.request_timeout,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_take_handles_for_outdated_get_none() {
        let (export, none) = (
            Capabilities::EXPORT_SUPPORT,
            Capabilities::NO_EXPORT_SUPPORT,
        );
        for (minor, requested, expected) in [
            (EPOCHS - 1, export, export),
            (EPOCHS, export, none),
            (EPOCHS, none, none),
            (EPOCHS, Capabilities::empty(), Capabilities::empty()),
        ] {
            assert_eq!(wanted(minor, requested) & (export | none), expected);
        }
    }
}
