//! The message formats. All numbers are big-endian.

use bitflags::bitflags;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U16, U32, U64},
};

/// The first magic number of the greeting: `NBDMAGIC`.
pub(crate) const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// The magic number of every option: `IHAVEOPT`.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const REPLY_MAGIC: u32 = 0x6744_6698;

/// The largest request, in bytes: the size that clients may assume without asking.
pub(crate) const MAX_REQUEST: u32 = 32 << 20;

/// The longest option, in bytes: far more than needed for the longest export name, 4096 bytes.
pub(crate) const MAX_OPTION: u32 = 16 << 10;

bitflags! {
    /// Handshake flags that the server offers and the client requests (`NBD_FLAG_FIXED_NEWSTYLE`
    /// and `NBD_FLAG_C_FIXED_NEWSTYLE`, and so on).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct HandshakeFlags: u32 {
        const FIXED_NEWSTYLE = 1 << 0;
        const NO_ZEROES = 1 << 1;
    }

    /// The features of an export (`NBD_FLAG_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct TransmissionFlags: u16 {
        const HAS_FLAGS = 1 << 0;
        const READ_ONLY = 1 << 1;
        const SEND_FLUSH = 1 << 2;
        const SEND_FUA = 1 << 3;
        const SEND_TRIM = 1 << 5;
        const SEND_WRITE_ZEROES = 1 << 6;
        const CAN_MULTI_CONN = 1 << 8;
    }

    /// The flags of a command (`NBD_CMD_FLAG_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct CommandFlags: u16 {
        const FUA = 1 << 0;
        const NO_HOLE = 1 << 1;
    }
}

/// The options of the handshake (`NBD_OPT_*`).
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
}

/// The replies to options (`NBD_REP_*`).
pub(crate) mod reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const ERR_UNSUP: u32 = 1 << 31 | 1;
    pub(crate) const ERR_POLICY: u32 = 1 << 31 | 2;
    pub(crate) const ERR_INVALID: u32 = 1 << 31 | 3;
    pub(crate) const ERR_UNKNOWN: u32 = 1 << 31 | 6;
}

/// The kinds of information on an export (`NBD_INFO_*`).
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// The commands on an export (`NBD_CMD_*`).
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISCONNECT: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const WRITE_ZEROES: u16 = 6;
}

/// The server's greeting.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Greeting {
    pub(crate) magic: U64,
    pub(crate) option_magic: U64,
    pub(crate) flags: U16,
}

/// The header of an option.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct OptionHeader {
    pub(crate) magic: U64,
    pub(crate) option: U32,
    pub(crate) len: U32,
}

/// The header of a reply to an option.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct OptionReply {
    pub(crate) magic: U64,
    pub(crate) option: U32,
    pub(crate) kind: U32,
    pub(crate) len: U32,
}

/// The size and features of an export.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ExportInfo {
    pub(crate) size: U64,
    pub(crate) flags: U16,
}

/// The recommended request sizes.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct BlockSizeInfo {
    pub(crate) minimum: U32,
    pub(crate) preferred: U32,
    pub(crate) maximum: U32,
}

/// The header of a request.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RequestHeader {
    pub(crate) magic: U32,
    pub(crate) flags: U16,
    pub(crate) command: U16,
    pub(crate) cookie: U64,
    pub(crate) offset: U64,
    pub(crate) len: U32,
}

/// The header of an answer. Only the answer to a read has data after it.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ReplyHeader {
    pub(crate) magic: U32,
    pub(crate) error: U32,
    pub(crate) cookie: U64,
}

const _: () = {
    assert!(size_of::<Greeting>() == 18);
    assert!(size_of::<OptionHeader>() == 16);
    assert!(size_of::<OptionReply>() == 20);
    assert!(size_of::<ExportInfo>() == 10);
    assert!(size_of::<BlockSizeInfo>() == 12);
    assert!(size_of::<RequestHeader>() == 28);
    assert!(size_of::<ReplyHeader>() == 16);
};
