//! The bytes of the superblock.

use std::{
    io::{self, Read, Seek, SeekFrom, Write},
    mem::offset_of,
};

use zerocopy::{FromZeros, IntoBytes};

use super::{Format, Plan, attributes::Attributes, compress};
use crate::{
    block_size::BlockSize,
    features::{Compatible, Incompatible},
    note::Note,
    raw::{self, MAGIC, SUPERBLOCK},
    superblock::{SUPERBLOCK_END, checksummed},
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
        Some(compression) if parameters => 1 << compression.codec.algorithm(),
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

/// Sets the checksum in an image, which has all else.
pub(super) fn set_checksum(
    image: &mut (impl Read + Write + Seek),
    block: BlockSize,
) -> io::Result<()> {
    const CHECKSUM: u64 = offset_of!(raw::Superblock, checksum) as u64;
    let mut covered = vec![0; checksummed(block) as usize];
    image.seek(SeekFrom::Start(SUPERBLOCK))?;
    image.read_exact(&mut covered)?;
    image.seek(SeekFrom::Start(SUPERBLOCK + CHECKSUM))?;
    // The format leaves out the inversion at the end.
    image.write_all(&(!crc32c::crc32c(&covered)).to_le_bytes())
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
