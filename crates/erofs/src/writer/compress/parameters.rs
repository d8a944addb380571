//! What decompressors need to know, behind the superblock.

use zerocopy::{Immutable, IntoBytes};

use super::{Codec, codec};
use crate::{
    raw::{Lz4Parameters, ZstdParameters},
    writer::Format,
};

/// The parameters of the algorithm, with their length in front; empty if readers need none.
///
/// Images of LZ4 whose clusters have one block each do without, as images did before Linux 5.13.
pub(in crate::writer) fn parameters(format: Format) -> Vec<u8> {
    let Some(compression) = format.compression else {
        return Vec::new();
    };
    let cluster = compression.cluster.bytes(format.block);
    match compression.codec {
        Codec::Lz4(_) if !compression.cluster.is_big(format.block) => Vec::new(),
        Codec::Lz4(_) => with_length(&Lz4Parameters {
            max_distance: u16::MAX.into(),
            // At most 1024.
            max_blocks: (format.block.blocks_for(cluster) as u16).into(),
            reserved: [0; 10],
        }),
        Codec::Zstd(_) => with_length(&ZstdParameters {
            format: 0,
            window_bits: (codec::zstd_window_bits(cluster) - 10) as u8,
            reserved: [0; 4],
        }),
    }
}

fn with_length(parameters: &(impl IntoBytes + Immutable)) -> Vec<u8> {
    let parameters = parameters.as_bytes();
    let mut bytes = (parameters.len() as u16).to_le_bytes().to_vec();
    bytes.extend_from_slice(parameters);
    bytes
}
