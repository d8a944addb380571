//! The header that every member begins with.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::{
    error::Defect,
    input::{BLOCK, Block},
    number::{field, unsigned_field},
};

/// Where the checksum is in a header.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// A header, as it is in the archive. All formats have the fields up to the device.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    name: [u8; 100],
    mode: [u8; 8],
    uid: [u8; 8],
    gid: [u8; 8],
    size: [u8; 12],
    mtime: [u8; 12],
    checksum: [u8; 8],
    pub(crate) type_flag: u8,
    link: [u8; 100],
    magic: [u8; 8],
    owner: [u8; 32],
    group: [u8; 32],
    major: [u8; 8],
    minor: [u8; 8],
    rest: [u8; 167],
}

/// What the formats have at the end of a header.
enum Format {
    /// Nothing.
    Old,
    /// The beginning of the name, of up to so many bytes.
    Prefix(usize),
    Gnu,
}

/// The end of a header in the GNU format.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GnuEnd {
    unused: [u8; 41],
    pub(crate) map: [RawRange; 4],
    pub(crate) is_continued: u8,
    size: [u8; 12],
    padding: [u8; 17],
}

/// A block with more of the map of a GNU header.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GnuMapBlock {
    pub(crate) map: [RawRange; 21],
    pub(crate) is_continued: u8,
    padding: [u8; 7],
}

/// A range of a file that is in the archive. An empty one ends a map.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawRange {
    offset: [u8; 12],
    len: [u8; 12],
}

const _: () = assert!(size_of::<Header>() == BLOCK && size_of::<GnuMapBlock>() == BLOCK);
const _: () = assert!(size_of::<GnuEnd>() == size_of::<[u8; 167]>());

impl Header {
    /// A header with a valid checksum.
    pub(crate) fn parse(block: &Block) -> Result<Self, Defect> {
        let header = Self::read_from_bytes(block).map_err(|_| Defect::Checksum)?;
        let stored = field(&header.checksum).ok_or(Defect::Checksum)?;
        // Some old programs took the bytes as signed.
        let byte = |number: usize, byte: &u8| {
            if CHECKSUM.contains(&number) {
                b' '
            } else {
                *byte
            }
        };
        let bytes = || block.iter().enumerate().map(|(at, value)| byte(at, value));
        let unsigned: i64 = bytes().map(i64::from).sum();
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        if stored == unsigned || stored == signed {
            Ok(header)
        } else {
            Err(Defect::Checksum)
        }
    }

    /// Whether bytes that are no part of the name are one to programs that do not look at the format.
    pub(crate) fn has_doubtful_prefix(&self) -> bool {
        match self.format() {
            Format::Prefix(_) => false,
            Format::Gnu | Format::Old => self.rest.first() != Some(&0),
        }
    }

    /// The path.
    pub(crate) fn name(&self) -> Vec<u8> {
        let name = text(&self.name);
        let prefix = match self.format() {
            Format::Prefix(len) => text(self.rest.get(..len).unwrap_or_default()),
            Format::Old | Format::Gnu => &[],
        };
        match prefix {
            [] => name.to_vec(),
            prefix => [prefix, b"/", name].concat(),
        }
    }

    /// The target of a link.
    pub(crate) fn link(&self) -> Vec<u8> {
        text(&self.link).to_vec()
    }

    /// Bytes of what follows.
    pub(crate) fn size(&self) -> Result<u64, Defect> {
        unsigned_field(&self.size).ok_or(Defect::Number("size"))
    }

    /// Type and permissions, or the latter alone.
    pub(crate) fn mode(&self) -> Result<u32, Defect> {
        small(&self.mode, "mode")
    }

    /// The owner.
    pub(crate) fn uid(&self) -> Result<u32, Defect> {
        small(&self.uid, "owner")
    }

    /// The group.
    pub(crate) fn gid(&self) -> Result<u32, Defect> {
        small(&self.gid, "group")
    }

    /// Seconds since 1970.
    pub(crate) fn mtime(&self) -> Result<i64, Defect> {
        field(&self.mtime).ok_or(Defect::Number("time"))
    }

    /// Major and minor number of a device, of up to 12 and 20 bits.
    pub(crate) fn device(&self) -> Result<(u32, u32), Defect> {
        let number = |bytes: &[u8], bits: u32| {
            let number = unsigned_field(bytes).and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| number.checked_shr(bits) == Some(0));
            number.ok_or(Defect::Number("device"))
        };
        Ok((number(&self.major, 12)?, number(&self.minor, 20)?))
    }

    /// Whether it is in the format of POSIX, which extended headers belong to.
    pub(crate) fn is_posix(&self) -> bool {
        matches!(self.format(), Format::Prefix(_))
    }

    /// The end of a header in the GNU format; `None` in others.
    pub(crate) fn gnu_end(&self) -> Option<GnuEnd> {
        match self.format() {
            Format::Gnu => GnuEnd::read_from_bytes(&self.rest).ok(),
            Format::Old | Format::Prefix(_) => None,
        }
    }

    fn format(&self) -> Format {
        match &self.magic {
            b"ustar  \0" => Format::Gnu,
            // Those of star have times behind a shorter prefix.
            [b'u', b's', b't', b'a', b'r', 0, ..] => {
                if self.rest.ends_with(b"tar\0") {
                    Format::Prefix(131)
                } else {
                    Format::Prefix(155)
                }
            }
            _ => Format::Old,
        }
    }
}

impl GnuEnd {
    /// Length of the file in bytes, with holes.
    pub(crate) fn size(&self) -> Result<u64, Defect> {
        unsigned_field(&self.size).ok_or(Defect::Number("size"))
    }
}

impl RawRange {
    /// Whether it ends the map.
    pub(crate) fn is_end(&self) -> bool {
        self.len.first() == Some(&0)
    }

    /// Offset and length in bytes.
    pub(crate) fn get(&self) -> Result<(u64, u64), Defect> {
        let offset = unsigned_field(&self.offset).ok_or(Defect::Map)?;
        let len = unsigned_field(&self.len).ok_or(Defect::Map)?;
        Ok((offset, len))
    }
}

/// A text up to the first NUL, or the end of its field.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    field.get(..end.unwrap_or(field.len())).unwrap_or_default()
}

fn small(bytes: &[u8], name: &'static str) -> Result<u32, Defect> {
    let number = field(bytes).and_then(|number| u32::try_from(number).ok());
    number.ok_or(Defect::Number(name))
}
