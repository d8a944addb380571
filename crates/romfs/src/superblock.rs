//! The superblock: the name and size of an image.

use verimount_source::ReadAt;
use zerocopy::FromBytes;
#[cfg(feature = "write")]
use zerocopy::IntoBytes;

use crate::{
    Error, NodeId,
    error::Defect,
    geometry::{CHECKSUMMED, MAX_HEADER_LEN, header_len, sum, to_usize},
    header::Header,
    name, raw,
};

/// A validated superblock.
#[derive(Debug)]
pub(crate) struct Superblock {
    /// The number of accessible bytes.
    pub(crate) size: u32,
    pub(crate) volume_name: Box<[u8]>,
    /// The root directory's header, which follows the volume name.
    pub(crate) root: NodeId,
}

impl Superblock {
    /// Reads the superblock and the root's header in one read.
    pub(crate) fn read(source: &impl ReadAt) -> Result<Self, Error> {
        let available = source.size();
        let mut buf = [0; CHECKSUMMED];
        let len = usize::try_from(available).unwrap_or(usize::MAX);
        let bytes = buf.get_mut(..len.min(CHECKSUMMED)).unwrap_or_default();
        source.read_exact_at(bytes, 0)?;
        Self::parse(bytes, available)
    }

    fn parse(bytes: &[u8], available: u64) -> Result<Self, Error> {
        let (raw, _) = raw::Superblock::read_from_prefix(bytes).map_err(|_| Error::NotRomfs)?;
        if raw.magic != raw::MAGIC {
            return Err(Error::NotRomfs);
        }
        let size = raw.size.get();
        if u64::from(size) > available {
            return Err(Error::Truncated { size, available });
        }
        let bytes = bytes.get(..to_usize(size)).unwrap_or(bytes);
        if sum(bytes) != 0 {
            return Err(Defect::SuperblockChecksum.at(0_u64).into());
        }
        let volume_name = bytes
            .get(size_of::<raw::Superblock>()..)
            .and_then(name::until_nul)
            .ok_or(Defect::VolumeName.at(0_u64))?;
        let root = header_len(volume_name.len());
        let root_bytes = bytes.get(root..).unwrap_or_default();
        let root = u32::try_from(root)
            .ok()
            .and_then(NodeId::from_raw)
            .ok_or(Defect::Root.at(0_u64))?;
        if !Header::parse(root, root_bytes)?.is_directory() {
            return Err(Defect::Root.at(root).into());
        }
        Ok(Self {
            size,
            volume_name: volume_name.into(),
            root,
        })
    }
}

/// Encodes a superblock without its checksum, which also covers the bytes after it.
#[cfg(feature = "write")]
pub(crate) fn encode(size: u32, volume_name: &[u8]) -> Vec<u8> {
    let raw = raw::Superblock {
        magic: raw::MAGIC,
        size: size.into(),
        checksum: 0.into(),
    };
    let mut bytes = [raw.as_bytes(), volume_name].concat();
    bytes.resize(header_len(volume_name.len()), 0);
    bytes
}

/// Sets the checksum of the superblock at the beginning of `image`.
///
/// `image` must contain all bytes that the checksum covers. In a small image these include padding,
/// which does not affect the sum as it is zero.
#[cfg(feature = "write")]
pub(crate) fn set_checksum(image: &mut [u8]) {
    let excess = sum(image.get(..CHECKSUMMED).unwrap_or_default());
    if let Ok((raw, _)) = raw::Superblock::mut_from_prefix(image) {
        raw.checksum = raw.checksum.get().wrapping_sub(excess).into();
    }
}

// A superblock and a root header, both with the longest names, fit in the bytes that are read.
const _: () = assert!(2 * MAX_HEADER_LEN <= CHECKSUMMED);
