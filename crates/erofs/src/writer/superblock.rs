//! The bytes of the superblock.

use std::mem::offset_of;

use zerocopy::{FromZeros, IntoBytes};

use super::{Format, Plan, attributes::Attributes, compress};
use crate::{
    features::{Compatible, Incompatible},
    note::Note,
    raw::{self, MAGIC, SUPERBLOCK},
    superblock::SUPERBLOCK_END,
};

/// How far back data can refer that LZ4 has compressed, in bytes.
const LZ4_DISTANCE: u16 = u16::MAX;

/// The superblock of a planned image of so many blocks, without its checksum.
pub(super) fn encode(
    plan: &Plan,
    uuid: [u8; 16],
    has_chunks: bool,
    blocks: u64,
) -> raw::Superblock {
    let time = plan.format.time;
    let layout = &plan.layout;
    let parameters = !compress::parameters(plan.format).is_empty();
    let root = layout.place(plan.tree.root().inode_id());
    let mut compatible = Compatible::CHECKSUM | Compatible::MTIME;
    compatible.set(Compatible::XATTR_FILTER, plan.attributes.exist);
    let mut incompatible = Incompatible::empty();
    incompatible.set(Incompatible::CHUNKS, has_chunks);
    incompatible.set(
        Incompatible::ZERO_PADDING,
        plan.format.compression.is_some(),
    );
    incompatible.set(Incompatible::COMPRESSION_CONFIGURATIONS, parameters);
    let algorithms = match plan.format.compression {
        Some(compression) if parameters => 1 << compression.codec.algorithm().number(),
        Some(_) => LZ4_DISTANCE,
        None => 0,
    };
    raw::Superblock {
        magic: MAGIC.into(),
        compatible: compatible.bits().into(),
        block_bits: plan.format.block.bits(),
        // The first inode is placed at the beginning.
        root: (root.nid as u16).into(),
        inodes: (plan.tree.inodes().len() as u64).into(),
        epoch: time.seconds().into(),
        nanoseconds: time.nanoseconds().into(),
        // At most `MAX_BLOCKS`.
        blocks: (blocks as u32).into(),
        xattr_block: layout.shared_attributes.into(),
        uuid,
        volume_name: plan.volume_name.padded(),
        incompatible: incompatible.bits().into(),
        algorithms: algorithms.into(),
        ..raw::Superblock::new_zeroed()
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
    let len = if block > SUPERBLOCK as usize {
        block - SUPERBLOCK as usize
    } else {
        block
    };
    // The format leaves out the inversion at the end.
    let checksum = !crc32c::crc32c(&beginning[SUPERBLOCK as usize..][..len]);
    beginning[SUPERBLOCK as usize + CHECKSUM..][..4].copy_from_slice(&checksum.to_le_bytes());
}

/// Where the superblock ends, with what follows it, in bytes.
pub(super) fn end(format: Format) -> u64 {
    SUPERBLOCK_END + compress::parameters(format).len() as u64
}

/// The bytes of an image in front of its metadata.
pub(super) fn beginning(superblock: &raw::Superblock, plan: &Plan) -> Vec<u8> {
    let mut bytes = vec![0; SUPERBLOCK as usize];
    note(&plan.attributes).write_to(&mut bytes);
    bytes.extend_from_slice(superblock.as_bytes());
    bytes.extend(compress::parameters(plan.format));
    bytes
}

/// What the image says of itself beyond the format.
fn note(attributes: &Attributes) -> Note {
    let mut note = Note::empty();
    note.set(Note::NO_ACCESS_LISTS, !attributes.has_access_lists);
    note
}
