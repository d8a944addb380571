//! The handshake: negotiating the export with a client.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use std::{
    io::{self, Read, Write},
    ops::ControlFlow::{self, Break, Continue},
};

use zerocopy::{
    FromBytes, FromZeros, IntoBytes,
    big_endian::{U16, U32},
};

use crate::{
    Export, OwnOption, Talk,
    clients::Purpose,
    protocol::{
        BlockSizeInfo, ExportInfo, Greeting, HandshakeFlags, MAGIC, MAX_OPTION, MAX_REQUEST,
        OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionHeader, OptionReply, TransmissionFlags, info,
        option, reply,
    },
};

/// The padding at the end of the answer to `NBD_OPT_EXPORT_NAME`.
const ZEROES: [u8; 124] = [0; 124];

/// Negotiates the only export, which has an empty name. `grant` says whether there is a place for
/// what the client has chosen. `None` if the client aborts.
///
/// # Errors
/// I/O errors, and [`io::ErrorKind::InvalidData`] for protocol violations.
pub(crate) fn agree<'a>(
    stream: &mut (impl Read + Write),
    export: &'a impl Export,
    grant: &dyn Fn(Purpose) -> bool,
) -> io::Result<Option<Chosen<'a>>> {
    let offered = HandshakeFlags::all();
    let greeting = Greeting {
        magic: MAGIC.into(),
        option_magic: OPTION_MAGIC.into(),
        // All flags fit in 16 bits.
        flags: U16::try_from(U32::new(offered.bits())).unwrap_or_default(),
    };
    stream.write_all(greeting.as_bytes())?;
    let mut flags = U32::ZERO;
    stream.read_exact(flags.as_mut_bytes())?;
    let wanted = HandshakeFlags::from_bits(flags.get()).ok_or(invalid("unknown flags"))?;
    if !wanted.contains(HandshakeFlags::FIXED_NEWSTYLE) {
        return Err(invalid("the obsolete oldstyle handshake"));
    }
    let mut negotiation = Negotiation {
        stream,
        export,
        grant,
        wanted,
    };
    loop {
        if let Break(chosen) = negotiation.answer_option()? {
            return Ok(chosen);
        }
    }
}

/// What a client has chosen.
pub(crate) enum Chosen<'a> {
    /// To use the export.
    Use,
    /// To be told this in reply to an option of the export's own.
    Talk(u32, Talk<'a>),
}

struct Negotiation<'a, 's, S, E> {
    stream: &'s mut S,
    export: &'a E,
    grant: &'s dyn Fn(Purpose) -> bool,
    wanted: HandshakeFlags,
}

impl<'a, S: Read + Write, E: Export> Negotiation<'a, '_, S, E> {
    /// Answers one option, which may be the last: with what the client has chosen, or `None` if it aborts.
    fn answer_option(&mut self) -> io::Result<ControlFlow<Option<Chosen<'a>>>> {
        let mut header = OptionHeader::new_zeroed();
        self.stream.read_exact(header.as_mut_bytes())?;
        if header.magic.get() != OPTION_MAGIC || header.len.get() > MAX_OPTION {
            return Err(invalid("a malformed option"));
        }
        let len = usize::try_from(header.len.get()).unwrap_or(usize::MAX);
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data)?;
        let option = header.option.get();
        match option {
            option::EXPORT_NAME => {
                self.choose(&data)?;
                return Ok(Break(Some(Chosen::Use)));
            }
            option::GO | option::INFO => {
                if self.tell(option, &data)? && option == option::GO {
                    return Ok(Break(Some(Chosen::Use)));
                }
            }
            option::LIST if data.is_empty() => {
                // The length of the name, which is empty.
                self.reply(option, reply::SERVER, &[U32::ZERO.as_bytes()])?;
                self.reply(option, reply::ACK, &[])?;
            }
            option::LIST => self.reply(option, reply::ERR_INVALID, &[])?,
            option::ABORT => {
                // The client need not wait for the answer.
                let _ = self.reply(option, reply::ACK, &[]);
                return Ok(Break(None));
            }
            _ => match self.export.own_option(option) {
                Some(OwnOption::Reply(data)) => self.reply(option, option, &[&data])?,
                Some(OwnOption::Talk(talk)) if (self.grant)(Purpose::Listen) => {
                    return Ok(Break(Some(Chosen::Talk(option, talk))));
                }
                Some(OwnOption::Talk(_)) => self.reply(option, reply::ERR_POLICY, &[])?,
                None => self.reply(option, reply::ERR_UNSUP, &[])?,
            },
        }
        Ok(Continue(()))
    }

    /// Answers `NBD_OPT_EXPORT_NAME`, which has no error reply.
    fn choose(&mut self, name: &[u8]) -> io::Result<()> {
        if !name.is_empty() {
            return Err(invalid("an unknown export name"));
        }
        if !(self.grant)(Purpose::Use) {
            return Err(io::Error::other("too many clients are connected"));
        }
        self.stream.write_all(self.export_info().as_bytes())?;
        if !self.wanted.contains(HandshakeFlags::NO_ZEROES) {
            self.stream.write_all(&ZEROES)?;
        }
        Ok(())
    }

    /// Sends the information that a client requested about an export. `false` if the request
    /// failed.
    fn tell(&mut self, option: u32, data: &[u8]) -> io::Result<bool> {
        let Some((name, wanted)) = parse_info(data) else {
            self.reply(option, reply::ERR_INVALID, &[])?;
            return Ok(false);
        };
        if !name.is_empty() {
            self.reply(option, reply::ERR_UNKNOWN, &[])?;
            return Ok(false);
        }
        if option == option::GO && !(self.grant)(Purpose::Use) {
            tracing::warn!("a client is rejected: too many are connected");
            self.reply(option, reply::ERR_POLICY, &[])?;
            return Ok(false);
        }
        let export = self.export_info();
        let kind = U16::new(info::EXPORT);
        let parts = [kind.as_bytes(), export.as_bytes()];
        self.reply(option, reply::INFO, &parts)?;
        if wanted.iter().any(|wanted| wanted.get() == info::BLOCK_SIZE) {
            let sizes = self.export.block_sizes();
            let sizes = BlockSizeInfo {
                minimum: sizes.minimum.into(),
                preferred: sizes.preferred.into(),
                maximum: MAX_REQUEST.into(),
            };
            let kind = U16::new(info::BLOCK_SIZE);
            let parts = [kind.as_bytes(), sizes.as_bytes()];
            self.reply(option, reply::INFO, &parts)?;
        }
        self.reply(option, reply::ACK, &[])?;
        Ok(true)
    }

    fn reply(&mut self, option: u32, kind: u32, parts: &[&[u8]]) -> io::Result<()> {
        send_reply(self.stream, option, kind, &parts.concat())
    }

    fn export_info(&self) -> ExportInfo {
        let mut flags = TransmissionFlags::HAS_FLAGS
            | TransmissionFlags::SEND_FLUSH
            // A flush covers the writes of all clients.
            | TransmissionFlags::CAN_MULTI_CONN;
        if self.export.is_read_only() {
            flags |= TransmissionFlags::READ_ONLY;
        } else {
            flags |= TransmissionFlags::SEND_FUA | TransmissionFlags::SEND_WRITE_ZEROES;
            flags.set(TransmissionFlags::SEND_TRIM, self.export.can_trim());
        }
        ExportInfo {
            size: self.export.size().into(),
            flags: flags.bits().into(),
        }
    }
}

/// Sends a reply to an option.
pub(crate) fn send_reply(
    stream: &mut impl Write,
    option: u32,
    kind: u32,
    data: &[u8],
) -> io::Result<()> {
    let header = OptionReply {
        magic: OPTION_REPLY_MAGIC.into(),
        option: option.into(),
        kind: kind.into(),
        // No reply is that long.
        len: u32::try_from(data.len()).unwrap_or(u32::MAX).into(),
    };
    stream.write_all(&[header.as_bytes(), data].concat())
}

/// Parses the name of an export and the kinds of information requested.
fn parse_info(data: &[u8]) -> Option<(&[u8], &[U16])> {
    let (len, rest) = U32::ref_from_prefix(data).ok()?;
    let (name, rest) = rest.split_at_checked(usize::try_from(len.get()).ok()?)?;
    let (count, rest) = U16::ref_from_prefix(rest).ok()?;
    let wanted = <[U16]>::ref_from_bytes_with_elems(rest, count.get().into()).ok()?;
    Some((name, wanted))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the client sent {what}"),
    )
}
