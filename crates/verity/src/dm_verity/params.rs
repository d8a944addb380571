use crate::{
    HashAlgorithm, TreeParams,
    params::{BlockSizeFrom, Hashing, SaltUpTo},
};

/// The size of blocks in dm-verity: 512 bytes, a sector, to 64 KiB.
pub type BlockSize = BlockSizeFrom<9>;

/// A salt of dm-verity: up to 256 bytes, hashed without padding.
pub type Salt = SaltUpTo<256>;

/// The parameters of a dm-verity Merkle tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Params {
    /// The hash.
    pub algorithm: HashAlgorithm,
    /// The size of data blocks.
    pub data_block_size: BlockSize,
    /// The size of hash blocks.
    pub hash_block_size: BlockSize,
    /// The bytes that are hashed before each block.
    pub salt: Salt,
}

impl Params {
    pub(crate) fn hashing(&self) -> Hashing {
        Hashing {
            algorithm: self.algorithm,
            data_block_log2: self.data_block_size.log2(),
            hash_block_log2: self.hash_block_size.log2(),
            prefix: self.salt.as_bytes().to_vec(),
        }
    }
}

/// Every value that is valid in fs-verity is valid in dm-verity, too.
impl From<TreeParams> for Params {
    fn from(params: TreeParams) -> Self {
        let block_size = params.block_size.into();
        Self {
            algorithm: params.algorithm,
            data_block_size: block_size,
            hash_block_size: block_size,
            salt: params.salt.into(),
        }
    }
}
