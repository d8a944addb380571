//! The agreement with the kernel that comes before everything else.

use std::io;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::{
    Capabilities,
    abi::{InitIn, InitOut, MAJOR, MINOR, OLDEST_MINOR, opcode},
    device::Device,
    request::Request,
};

/// The size of a page, in bytes: the unit of the largest request.
const PAGE: u32 = 4096;

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
}

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// What both sides can do.
    pub capabilities: Capabilities,
    /// The minor number of the protocol.
    pub minor: u32,
}

/// Waits for the kernel's offer and answers it.
///
/// # Errors
/// What the system says; `Unsupported` for a kernel before Linux 5.17.
pub(crate) fn agree(device: &Device, wishes: &Wishes) -> io::Result<Agreement> {
    let mut buffer = vec![0; crate::abi::MIN_READ_BUFFER];
    let Some(len) = device.receive(&mut buffer)? else {
        return Err(io::Error::other("unmounted before it was ready"));
    };
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "no FUSE INIT request");
    let mut request = Request::parse(&buffer[..len]).ok_or_else(invalid)?;
    let unique = request.header.unique;
    let offer: InitIn = request.take().map_err(|_| invalid())?;
    if request.header.opcode != opcode::INIT {
        return Err(invalid());
    }
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
    let answer = answer(&agreement, &offer, wishes);
    device.reply(unique, Ok(answer.as_bytes()));
    Ok(agreement)
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
        max_pages: wishes.max_read.max(wishes.max_write).div_ceil(PAGE) as u16,
        max_stack_depth: stack_depth,
        ..Default::default()
    }
}
