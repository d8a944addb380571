//! The bytes of the superblock.

use std::mem::offset_of;

use zerocopy::IntoBytes;

use super::Plan;
use crate::{
    features::{Compatible, Incompatible},
    raw::{self, MAGIC, SUPERBLOCK},
    superblock::SUPERBLOCK_END,
};

/// The superblock of a planned image, without its checksum.
pub(super) fn encode(plan: &Plan, uuid: [u8; 16], has_chunks: bool) -> raw::Superblock {
    let time = plan.format.time;
    let layout = &plan.layout;
    let root = layout.place(plan.tree.root().inode_id());
    let mut compatible = Compatible::CHECKSUM | Compatible::MTIME;
    compatible.set(Compatible::XATTR_FILTER, plan.attributes.exist());
    let mut incompatible = Incompatible::empty();
    incompatible.set(Incompatible::CHUNKS, has_chunks);
    raw::Superblock {
        magic: MAGIC.into(),
        checksum: 0.into(),
        compatible: compatible.bits().into(),
        block_bits: plan.format.block.bits(),
        extensions: 0,
        // The first inode is placed at the beginning.
        root: (root.nid as u16).into(),
        inodes: (plan.tree.inodes().len() as u64).into(),
        epoch: time.seconds().into(),
        nanoseconds: time.nanoseconds().into(),
        // At most `MAX_BLOCKS`.
        blocks: (layout.blocks as u32).into(),
        inode_block: 0.into(),
        xattr_block: layout.shared_attributes.into(),
        uuid,
        volume_name: plan.volume_name.padded(),
        incompatible: incompatible.bits().into(),
        algorithms: 0.into(),
        extra_devices: 0.into(),
        device_slot: 0.into(),
        directory_block_bits: 0,
        xattr_prefixes: 0,
        xattr_prefix_slot: 0.into(),
        packed_inode: 0.into(),
        no_xattr_filter: 0,
        shared_inode_prefix: 0,
        reserved: [0; 2],
        build_time: 0.into(),
        wide_root: 0.into(),
        reserved_too: [0; 8],
    }
}

/// Where the checksum is in the superblock.
const CHECKSUM: usize = offset_of!(raw::Superblock, checksum);

/// Where the base-2 logarithm of the block size is in the superblock.
const BLOCK_BITS: usize = offset_of!(raw::Superblock, block_bits);

/// Sets the checksum in the beginning of an image: of the first block from the superblock on.
pub(super) fn set_checksum(beginning: &mut [u8]) {
    let block = 1 << beginning[SUPERBLOCK as usize + BLOCK_BITS];
    // A block that ends where the superblock begins, or before, does not have it.
    let len = match block > SUPERBLOCK as usize {
        true => block - SUPERBLOCK as usize,
        false => block,
    };
    // The format leaves out the inversion at the end.
    let checksum = !crc32c::crc32c(&beginning[SUPERBLOCK as usize..][..len]);
    beginning[SUPERBLOCK as usize + CHECKSUM..][..4].copy_from_slice(&checksum.to_le_bytes());
}

/// The bytes of an image in front of its metadata.
pub(super) fn beginning(superblock: &raw::Superblock) -> [u8; SUPERBLOCK_END as usize] {
    let mut bytes = [0; SUPERBLOCK_END as usize];
    bytes[SUPERBLOCK as usize..].copy_from_slice(superblock.as_bytes());
    bytes
}
