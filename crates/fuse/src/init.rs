//! The agreement with the kernel that comes before everything else.

use std::{io, num::NonZeroUsize, sync::Arc};

use rustix::{io::Errno, param::page_size};
use zerocopy::IntoBytes;

use crate::{
    Capabilities,
    abi::{InitIn, InitOut, MAJOR, MIN_READ_BUFFER, MINOR, OLDEST_MINOR, opcode},
    device::Device,
    queues::{Place, places},
    request::Request,
};

/// `FUSE_OVER_IO_URING`: once it is agreed on, nothing happens until all queues are served.
const OVER_IO_URING: u64 = 1 << 41;

/// The longest arguments that are no data, in bytes: an extended attribute's value and name.
const MAX_ARGUMENTS: usize = 64 * 1024 + 256;

/// What is always asked for: it changes how messages look, or there is no reason not to.
const ALWAYS: Capabilities = Capabilities::ASYNC_READ
    .union(Capabilities::BIG_WRITES)
    .union(Capabilities::MAX_PAGES)
    .union(Capabilities::SETXATTR_EXT)
    .union(Capabilities::INIT_EXT)
    .union(Capabilities::CREATE_SUPP_GROUP);

/// What a file system wants from the kernel.
#[derive(Debug, Clone, Copy)]
pub struct Wishes {
    /// What to agree on, as far as the kernel can.
    pub capabilities: Capabilities,
    /// The largest read, in bytes.
    pub max_read: u32,
    /// The largest write, in bytes; also what each thread has room for.
    pub max_write: u32,
    /// How much the kernel may read ahead, in bytes.
    pub max_readahead: u32,
    /// How many requests nobody waits for may be under way at once.
    pub max_background: u16,
    /// With [`Capabilities::PASSTHROUGH`]: how many layers of file systems this one may be above
    /// of; 1 or 2.
    pub max_stack_depth: u32,
    /// How the kernel is to be answered.
    pub answering: Answering,
}

/// How the kernel is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// Through `/dev/fuse`, by a number of threads.
    ByThreads,
    /// Through io_uring, by so many threads on each processor, where the system allows that and the
    /// largest request is at least 128 KiB; else as [`Self::ByThreads`].
    ByProcessor(NonZeroUsize),
    /// Through `/dev/fuse`, so that no user's requests hold up another's: by a number of threads, and
    /// by more when all of them wait, of which each user gets a share. Requests beyond that wait,
    /// and take no thread. With io_uring they would keep others from being sent.
    Fairly,
}

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// What both sides can do.
    pub capabilities: Capabilities,
    /// The minor number of the protocol.
    pub minor: u32,
}

/// Waits for the kernel's offer and answers it. The places in its queues are for io_uring: if there
/// are any, they must be served.
///
/// # Errors
/// What the system says; `Unsupported` for a kernel before Linux 5.17.
pub(crate) fn agree(device: &Arc<Device>, wishes: &Wishes) -> io::Result<(Agreement, Vec<Place>)> {
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
    let agreement = Agreement {
        capabilities: Capabilities::from_bits_truncate(offered) & (wishes.capabilities | ALWAYS),
        minor: offer.minor.min(MINOR),
    };
    let mut answer = answer(&agreement, &offer, wishes);
    let queues = match offered & OVER_IO_URING {
        0 => Vec::new(),
        _ => queues(device, wishes, payload_len(&answer)),
    };
    if !queues.is_empty() {
        answer.flags2 |= (OVER_IO_URING >> 32) as u32;
    }
    device.reply(unique, Ok(answer.as_bytes()));
    Ok((agreement, queues))
}

/// The kernel's first request, by its number and its content.
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

/// Places in the kernel's queues, with all that can fail done; none where they are not wished for
/// or cannot be had.
fn queues(device: &Arc<Device>, wishes: &Wishes, payload_len: usize) -> Vec<Place> {
    let threads = match wishes.answering {
        Answering::ByProcessor(threads) if payload_len >= MAX_ARGUMENTS => Some(threads),
        _ => None,
    };
    let places = threads.map(|threads| places(device, threads, payload_len));
    places.transpose().map_or_else(
        |error| {
            tracing::info!(%error, "answering through /dev/fuse, not io_uring");
            Vec::new()
        },
        Option::unwrap_or_default,
    )
}

/// The room that the kernel wants for what a request or an answer holds besides its headers, in
/// bytes.
fn payload_len(answer: &InitOut) -> usize {
    let pages = usize::from(answer.max_pages) * page_size();
    MIN_READ_BUFFER.max(answer.max_write as usize).max(pages)
}

fn answer(agreement: &Agreement, offer: &InitIn, wishes: &Wishes) -> InitOut {
    let flags = agreement.capabilities.bits();
    let stack_depth = match agreement.capabilities.contains(Capabilities::PASSTHROUGH) {
        true => wishes.max_stack_depth,
        false => 0,
    };
    InitOut {
        major: MAJOR,
        minor: agreement.minor,
        max_readahead: wishes.max_readahead.min(offer.max_readahead),
        // Each word of flags is a half.
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        max_background: wishes.max_background,
        congestion_threshold: wishes.max_background / 4 * 3,
        max_write: wishes.max_write,
        // Times are kept to the nanosecond.
        time_gran: 1,
        max_pages: (wishes.max_read.max(wishes.max_write) as usize).div_ceil(page_size()) as u16,
        max_stack_depth: stack_depth,
        ..Default::default()
    }
}
