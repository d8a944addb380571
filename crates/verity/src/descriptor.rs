#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::as_conversions
)]

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

use crate::{
    BlockSize, Corruption, Digest, Error, FileDigest, HashAlgorithm, Salt, TreeGeometry,
    TreeParams, hasher::hash_plain,
};

/// `struct fsverity_descriptor`.
#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDescriptor {
    version: u8,
    hash_algorithm: u8,
    log_blocksize: u8,
    salt_size: u8,
    /// Size of the signature that follows a stored descriptor; zero for hashing.
    signature_size: U32,
    data_size: U64,
    root_hash: [u8; 64],
    salt: [u8; 32],
    reserved: [u8; 144],
}

/// Size of a stored descriptor in bytes, without its signature.
pub const DESCRIPTOR_SIZE: usize = size_of::<RawDescriptor>();

const _: () = assert!(DESCRIPTOR_SIZE == 256);

/// Identifies a file by the tree's parameters, the size of the data and the root hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    pub(crate) params: TreeParams,
    pub(crate) geometry: TreeGeometry,
    pub(crate) root: Digest,
}

impl Descriptor {
    /// Reads a stored descriptor; also returns the size of the signature that follows it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] naming the field, [`Error::Unsupported`] for another version, hash or
    /// block size, [`Error::TooLarge`] for data too large for any tree.
    pub fn parse(bytes: &[u8]) -> Result<(Self, u32), Error> {
        let size = || Corruption::DescriptorSize(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let (raw, _) = RawDescriptor::ref_from_prefix(bytes).map_err(|_| size())?;
        if raw.version != 1 {
            return Err(Error::Unsupported(
                format!("version {} of the descriptor", raw.version).into(),
            ));
        }
        let algorithm = HashAlgorithm::from_number(raw.hash_algorithm).ok_or_else(|| {
            Error::Unsupported(format!("hash number {}", raw.hash_algorithm).into())
        })?;
        let block_size = BlockSize::from_log2(raw.log_blocksize).map_err(|_| {
            Error::Unsupported(format!("blocks of 2^{} bytes", raw.log_blocksize).into())
        })?;
        let split = raw.salt.split_at_checked(raw.salt_size.into());
        let (salt, salt_padding) = split.ok_or(Corruption::SaltSize(raw.salt_size.into()))?;
        let split = raw.root_hash.split_at_checked(algorithm.digest_size());
        let (root, root_padding) = split.ok_or(Corruption::Reserved)?;
        let mut padding = [salt_padding, root_padding, &raw.reserved].into_iter();
        if padding.any(|bytes| bytes.iter().any(|&byte| byte != 0)) {
            return Err(Corruption::Reserved.into());
        }
        let params = TreeParams {
            algorithm,
            block_size,
            salt: Salt::new(salt).map_err(|_| Corruption::SaltSize(raw.salt_size.into()))?,
        };
        let descriptor = Self {
            geometry: checked_geometry(&params, raw.data_size.get())?,
            root: Digest::new(algorithm, root).ok_or(Corruption::Reserved)?,
            params,
        };
        Ok((descriptor, raw.signature_size.get()))
    }

    /// The stored form of the descriptor, before a signature of `signature_size` bytes.
    pub fn to_bytes(&self, signature_size: u32) -> [u8; DESCRIPTOR_SIZE] {
        let salt = self.params.salt.as_bytes();
        let raw = RawDescriptor {
            version: 1,
            hash_algorithm: self.params.algorithm.number(),
            log_blocksize: self.params.block_size.log2(),
            salt_size: u8::try_from(salt.len()).unwrap_or(u8::MAX),
            signature_size: U32::new(signature_size),
            data_size: U64::new(self.geometry.data_size()),
            root_hash: zero_padded(self.root.as_bytes()),
            salt: zero_padded(salt),
            reserved: [0; 144],
        };
        zerocopy::transmute!(raw)
    }

    /// The file's digest: the hash of the descriptor without signature.
    pub fn file_digest(&self) -> FileDigest {
        FileDigest(hash_plain(self.params.algorithm, &self.to_bytes(0)))
    }

    /// The tree's parameters.
    pub fn params(&self) -> &TreeParams {
        &self.params
    }

    /// The tree's shape.
    pub fn geometry(&self) -> &TreeGeometry {
        &self.geometry
    }

    /// The root hash; all zeros for an empty file.
    pub fn root(&self) -> &Digest {
        &self.root
    }
}

/// The most levels of a tree in fs-verity, as in the kernel.
const MAX_LEVELS: usize = 8;

/// The shape of the tree over `data_size` bytes.
pub(crate) fn checked_geometry(params: &TreeParams, data_size: u64) -> Result<TreeGeometry, Error> {
    TreeGeometry::new(&params.hashing(), data_size)
        .filter(|geometry| geometry.levels() <= MAX_LEVELS)
        .ok_or(Error::TooLarge(data_size))
}

/// `bytes`, padded with zeros.
pub(crate) fn zero_padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_levels_are_refused() {
        let params = TreeParams {
            algorithm: HashAlgorithm::Sha512,
            block_size: BlockSize::from_log2(10).expect("the smallest"),
            ..TreeParams::default()
        };
        // 16 digests a block: 16^8 blocks of 1 KiB are the most that 8 levels reach.
        let most = 1 << (4 * 8 + 10);
        assert!(checked_geometry(&params, most).is_ok());
        assert!(checked_geometry(&params, most + 1).is_err());
        let largest = crate::geometry::MAX_DATA_SIZE;
        assert!(checked_geometry(&TreeParams::default(), largest).is_ok());
    }

    /// The digest covers none of these bytes, as it is made of what was read.
    #[test]
    fn only_one_text_is_a_descriptor() {
        let params = TreeParams {
            salt: Salt::new(&[1; 5]).expect("a salt"),
            ..TreeParams::default()
        };
        let descriptor = Descriptor {
            geometry: checked_geometry(&params, 5000).expect("a size"),
            root: Digest::zero(params.algorithm),
            params,
        };
        let bytes = descriptor.to_bytes(0);
        assert!(Descriptor::parse(&bytes).is_ok());
        // The version, and behind the root hash, behind the salt and at the end.
        for at in [0, 16 + 32, 16 + 63, 80 + 5, 80 + 31, 112, 255] {
            let mut changed = bytes;
            *changed.get_mut(at).expect("a byte of it") ^= 2;
            assert!(Descriptor::parse(&changed).is_err(), "{at}");
        }
    }
}
