use std::{borrow::Cow, io};

use thiserror::Error;
use verimount_source::ReadError;

use crate::{Digest, FileDigest, HashAlgorithm};

/// Why a tree, descriptor, seal or signature could not be used or created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A source could not be read.
    #[error(transparent)]
    Source(#[from] ReadError),
    /// The seal could not be written.
    #[error("writing the seal: {0}")]
    Write(#[source] io::Error),
    /// Cancelled by the progress callback.
    #[error("interrupted")]
    Cancelled,
    /// There is no seal.
    #[error("it is not sealed")]
    NotSealed,
    /// The file has a seal already.
    #[error("it is sealed already")]
    AlreadySealed,
    /// Sealing was interrupted: a part of a seal follows the data.
    #[error(
        "its sealing was interrupted: a part of a seal follows its {data_size} bytes of data; \
         append the same seal again to complete it"
    )]
    Unfinished {
        /// The size of the data in bytes.
        data_size: u64,
    },
    /// The bytes that follow the data are not part of the seal that is to be appended.
    #[error(
        "its sealing was interrupted with other options or other data: give the same options, or \
         truncate it to its {data_size} bytes of data"
    )]
    BegunOtherwise {
        /// The size of the data in bytes.
        data_size: u64,
    },
    /// The seal is damaged.
    #[error("its seal is corrupt: {0}")]
    Corrupt(#[from] Corruption),
    /// The seal is intact, but uses a feature that Verimount does not support.
    #[error("its seal uses {0}, which is not supported")]
    Unsupported(Cow<'static, str>),
    /// The file does not have the required digest.
    #[error("its digest is {actual}, not {expected}")]
    WrongDigest {
        /// The required digest.
        expected: Box<FileDigest>,
        /// The digest that the seal has.
        actual: Box<FileDigest>,
    },
    /// There is no dm-verity superblock at the given offset.
    #[error("there is no dm-verity superblock")]
    NoSuperblock,
    /// The data cannot be sealed for dm-verity.
    #[error("its {size} bytes are not one or more whole blocks of {block_size}")]
    NotWholeBlocks {
        /// The size of the data in bytes.
        size: u64,
        /// The size of data blocks in bytes.
        block_size: usize,
    },
    /// The length of the required root hash is not that of the superblock's hash.
    #[error(
    "it uses {algorithm}, whose root hashes have {} bytes, not {actual}",
        algorithm.digest_size()
    )]
    RootHashSize {
        /// The superblock's hash.
        algorithm: HashAlgorithm,
        /// The size of the required root hash in bytes.
        actual: usize,
    },
    /// The hash area does not have the required root hash, or its topmost block is damaged.
    #[error("its root hash is {actual}, not {expected}")]
    WrongRootHash {
        /// The required root hash.
        expected: Box<Digest>,
        /// The digest of the topmost block.
        actual: Box<Digest>,
    },
    /// A key was given, but the seal holds no signature.
    #[error("it is not signed")]
    NotSigned,
    /// The signature is not by the given key over this file's digest.
    #[error("its signature is not valid: {0}")]
    WrongSignature(#[source] minisign_verify::Error),
    /// A text is not a key, or not one that can be used without a password.
    #[error("not a usable minisign key: {0}")]
    BadKey(
        /// Why.
        String,
    ),
    /// A file of more than 2^63 bytes, or a tree of more levels than the kernel supports.
    #[error("a file of {0} bytes is too large for a Merkle tree with these parameters")]
    TooLarge(u64),
}

/// What is wrong with a seal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Corruption {
    /// The descriptor ends early.
    #[error("the descriptor has {0} bytes")]
    DescriptorSize(u64),
    /// The salt size exceeds its limit.
    #[error("the salt size is {0}")]
    SaltSize(u16),
    /// Bytes that must be zero are not.
    #[error("reserved bytes of the descriptor are not zero")]
    Reserved,
    /// The file does not have the length that the descriptor implies.
    #[error("it has {actual} bytes, but its descriptor implies {expected}")]
    Length {
        /// The length that the descriptor implies.
        expected: u64,
        /// The length of the file.
        actual: u64,
    },
    /// The sidecar belongs to data of another size.
    #[error("the data has {actual} bytes, but had {expected} when it was sealed")]
    DataSize {
        /// The size that was sealed.
        expected: u64,
        /// The size of the data.
        actual: u64,
    },
    /// The superblock declares that there is no data.
    #[error("the superblock declares no data blocks")]
    NoBlocks,
    /// The file ends within the hash area.
    #[error("the hash area ends at {expected}, the file at {actual}")]
    HashAreaEnd {
        /// The end of the hash area, in bytes.
        expected: u64,
        /// The size of the file.
        actual: u64,
    },
    /// The hash area begins within the data.
    #[error("the hash area at {offset} overlaps the data of {data_size} bytes")]
    Overlap {
        /// The offset of the superblock in bytes.
        offset: u64,
        /// The size of the data.
        data_size: u64,
    },
    /// The mark of an interrupted change is inconsistent.
    #[error("the mark of an interrupted change is inconsistent")]
    Mark,
    /// The stored signature is not a minisign signature.
    #[error("the signature is not a minisign signature")]
    Signature,
}
