use clap::Args;
use verimount::RootHash;

use crate::options::parse_size;

/// What contradicts --root-hash: other seals than those of dm-verity, and none. Clap does not ask for a required option that
/// contradicts another one.
const NOT_BY_ROOT_HASH: [&str; 4] = ["digest", "key", "unpinned", "unverified"];

/// The options for files with a dm-verity tree.
#[derive(Args)]
#[group(skip)]
pub(crate) struct DmVerityArgs {
    /// Accept only this root hash of the dm-verity tree (hexadecimal)
    #[arg(long, value_name = "HEX", conflicts_with_all = NOT_BY_ROOT_HASH)]
    root_hash: Option<RootHash>,
    /// Offset of the dm-verity superblock: in the file of --sidecar if given, else in the file
    /// itself. By default, that in FILE.dmverity, which containerd writes
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "root_hash", conflicts_with_all = NOT_BY_ROOT_HASH)]
    hash_offset: Option<u64>,
    /// Required number of data blocks, which the root hash does not cover
    #[arg(long, value_name = "N", requires = "root_hash", conflicts_with_all = NOT_BY_ROOT_HASH)]
    data_blocks: Option<u64>,
}

impl DmVerityArgs {
    /// The required root hash, if given.
    pub(crate) fn root_hash(&self) -> Option<RootHash> {
        let root_hash = self.root_hash.clone()?;
        Some(match self.data_blocks {
            Some(data_blocks) => root_hash.with_data_blocks(data_blocks),
            None => root_hash,
        })
    }

    /// The offset of the superblock, if given.
    pub(crate) fn hash_offset(&self) -> Option<u64> {
        self.hash_offset
    }
}
