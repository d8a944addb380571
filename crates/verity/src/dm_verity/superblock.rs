#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::as_conversions
)]

use std::ops::Range;

use verimount_names::one_line;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

use super::{BlockSize, Params, Salt};
use crate::{Corruption, Digest, Error, TreeGeometry, descriptor::zero_padded};

const SIGNATURE: [u8; 8] = *b"verity\0\0";

/// The stored form of the superblock.
#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    signature: [u8; 8],
    version: U32,
    hash_type: U32,
    uuid: [u8; 16],
    /// The hash's name, padded with zeros.
    algorithm: [u8; 32],
    data_block_size: U32,
    hash_block_size: U32,
    data_blocks: U64,
    salt_size: U16,
    reserved: [u8; 6],
    salt: [u8; 256],
    reserved_end: [u8; 168],
}

/// Size of a superblock in bytes.
pub const SUPERBLOCK_SIZE: usize = size_of::<RawSuperblock>();

const _: () = assert!(SUPERBLOCK_SIZE == 512);

/// The parameters that a hash area declares. The root hash does not cover them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) params: Params,
    /// The shape of the tree over one or more whole data blocks.
    pub(super) geometry: TreeGeometry,
}

impl Superblock {
    /// The superblock for `data_size` bytes of data.
    ///
    /// # Errors
    /// [`Error::NotWholeBlocks`] or [`Error::TooLarge`].
    pub(super) fn new(params: Params, data_size: u64) -> Result<Self, Error> {
        let block_size = params.data_block_size.bytes();
        let is_whole = u64::try_from(block_size).is_ok_and(|size| data_size.is_multiple_of(size));
        if data_size == 0 || !is_whole {
            return Err(Error::NotWholeBlocks {
                size: data_size,
                block_size,
            });
        }
        let geometry = TreeGeometry::new(&params.hashing(), data_size);
        Ok(Self {
            geometry: geometry.ok_or(Error::TooLarge(data_size))?,
            params,
        })
    }

    /// Reads a stored superblock.
    ///
    /// # Errors
    /// [`Error::NoSuperblock`] if there is none, [`Error::Unsupported`] for another version, hash
    /// type, hash or block size, [`Error::Corrupt`] or [`Error::TooLarge`].
    pub(super) fn parse(bytes: &[u8; SUPERBLOCK_SIZE]) -> Result<Self, Error> {
        let raw: RawSuperblock = zerocopy::transmute!(*bytes);
        if raw.signature != SIGNATURE {
            return Err(Error::NoSuperblock);
        }
        if raw.version.get() != 1 {
            return Err(Error::Unsupported(
                format!("version {} of the superblock", raw.version).into(),
            ));
        }
        match raw.hash_type.get() {
            0 => return Err(Error::Unsupported("hash type 0, that of Chrome OS".into())),
            1 => {}
            other => return Err(Error::Unsupported(format!("hash type {other}").into())),
        }
        let salt_size = raw.salt_size.get();
        let salt = raw.salt.get(..salt_size.into());
        let algorithm = until_zero(&raw.algorithm);
        let params = Params {
            algorithm: algorithm.parse().map_err(|_| {
                Error::Unsupported(format!("the hash \"{}\"", one_line(algorithm)).into())
            })?,
            data_block_size: block_size(raw.data_block_size)?,
            hash_block_size: block_size(raw.hash_block_size)?,
            salt: salt
                .and_then(|salt| Salt::new(salt).ok())
                .ok_or(Corruption::SaltSize(salt_size))?,
        };
        let blocks = raw.data_blocks.get();
        let size = u64::from(raw.data_block_size)
            .checked_mul(blocks)
            .ok_or(Error::TooLarge(u64::MAX))?;
        match blocks {
            0 => Err(Corruption::NoBlocks.into()),
            _ => Self::new(params, size),
        }
    }

    /// The stored form of the superblock. Its UUID is taken from the root hash, so that the same
    /// data gives the same bytes, and other data another UUID. The kernel ignores the UUID.
    pub(super) fn to_bytes(&self, root: &Digest) -> [u8; SUPERBLOCK_SIZE] {
        let salt = self.params.salt.as_bytes();
        let raw = RawSuperblock {
            signature: SIGNATURE,
            version: U32::new(1),
            hash_type: U32::new(1),
            uuid: uuid(root),
            algorithm: zero_padded(self.params.algorithm.name().as_bytes()),
            data_block_size: U32::new(1 << self.params.data_block_size.log2()),
            hash_block_size: U32::new(1 << self.params.hash_block_size.log2()),
            data_blocks: U64::new(self.geometry.data_blocks()),
            salt_size: U16::new(u16::try_from(salt.len()).unwrap_or(u16::MAX)),
            reserved: [0; 6],
            salt: zero_padded(salt),
            reserved_end: [0; 168],
        };
        zerocopy::transmute!(raw)
    }

    /// Where in a file the tree is, in bytes, if the superblock is at `offset`: it begins with the
    /// next hash block of the file. `None` if that does not fit into 64 bits.
    pub(super) fn tree_place(&self, offset: u64) -> Option<Range<u64>> {
        let start = offset
            .checked_add(u64::try_from(SUPERBLOCK_SIZE).ok()?)?
            .checked_next_multiple_of(u64::try_from(self.params.hash_block_size.bytes()).ok()?)?;
        Some(start..start.checked_add(self.geometry.tree_size())?)
    }
}

fn block_size(bytes: U32) -> Result<BlockSize, Error> {
    BlockSize::new(bytes.into())
        .map_err(|_| Error::Unsupported(format!("blocks of {bytes} bytes").into()))
}

/// The text before the first zero; none if it is no text.
fn until_zero(bytes: &[u8]) -> &str {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    str::from_utf8(text).unwrap_or_default()
}

/// A UUID of version 8 (RFC 9562), whose content is up to the application.
fn uuid(root: &Digest) -> [u8; 16] {
    let mut uuid: [u8; 16] = zero_padded(root.as_bytes());
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut uuid;
    *version = *version & 0x0F | 0x80;
    *variant = *variant & 0x3F | 0x80;
    uuid
}
