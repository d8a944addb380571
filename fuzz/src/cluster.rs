//! What the targets for decompression share: an EROFS image of one file, whose content is one compressed cluster.

use std::{ffi::OsStr, sync::Arc};

use verimount_erofs::ErofsTree;
use verimount_source::Scratch;
use verimount_tree::{NodeId, Tree};
use verimount_verity::Checked;

/// A compression algorithm, by its number in the format.
#[derive(Debug, Clone, Copy)]
pub enum Algorithm {
    /// LZ4 blocks.
    Lz4 = 0,
    /// LZMA without a header.
    MicroLzma = 1,
    /// DEFLATE without a header.
    Deflate = 2,
    /// A frame of Zstandard.
    Zstd = 3,
}

/// The file's name.
const NAME: &str = "f";

const SUPERBLOCK: usize = 1024;
const ROOT: usize = 1536;
const FILE: usize = 1792;
const CLUSTER: usize = 2048;

/// Decompresses the input: the length of the content less one, in two bytes, little-endian; and the compressed data.
///
/// # Panics
/// If a read returns more or less than it was asked for, or another content than an earlier one.
pub fn decompress(algorithm: Algorithm, input: &[u8]) {
    let Some((len, compressed)) = input.split_first_chunk() else {
        return;
    };
    let len = usize::from(u16::from_le_bytes(*len)) + 1;
    let Some(content) = content(algorithm, compressed, len, 0..len) else {
        return;
    };
    assert_eq!(content.len(), len);
    let part = len / 3..len / 2;
    let expected = &content[part.clone()];
    assert_eq!(
        self::content(algorithm, compressed, len, part).as_deref(),
        Some(expected)
    );
    // Several files may use one cluster, each to another length.
    let shorter = len.div_ceil(2);
    let beginning = self::content(algorithm, compressed, shorter, 0..shorter);
    assert_eq!(beginning.as_deref(), Some(&content[..shorter]));
}

/// A part of a file of `len` bytes; `None` if it is refused.
fn content(
    algorithm: Algorithm,
    compressed: &[u8],
    len: usize,
    part: std::ops::Range<usize>,
) -> Option<Vec<u8>> {
    let image = image(algorithm, compressed, len);
    let tree = ErofsTree::open(Checked::unverified(Arc::new(image)), Vec::new())
        .expect("the image is right");
    let file = tree
        .lookup(NodeId::ROOT, OsStr::new(NAME))
        .expect("it has the file");
    let mut scratch = Scratch::default();
    let read = tree.read(file.node, part.start as u64, part.len(), &mut scratch);
    read.ok().map(<[u8]>::to_vec)
}

/// The image, in blocks of 512 bytes and without a checksum.
fn image(algorithm: Algorithm, compressed: &[u8], len: usize) -> Vec<u8> {
    let nid = |at: usize| (at / 32) as u64;
    let directory = directory(nid(ROOT), nid(FILE));
    let mut image = vec![0; CLUSTER];
    let mut put = |at: usize, value: &[u8]| image[at..at + value.len()].copy_from_slice(value);
    put(SUPERBLOCK, &0xe0f5_e1e2_u32.to_le_bytes());
    put(SUPERBLOCK + 0x0c, &[9]);
    put(SUPERBLOCK + 0x0e, &(nid(ROOT) as u16).to_le_bytes());
    // Compressed data ends where blocks end, in any algorithm; all of them.
    put(SUPERBLOCK + 0x50, &3_u32.to_le_bytes());
    put(SUPERBLOCK + 0x54, &0xf_u16.to_le_bytes());
    // Content behind the inode.
    put(ROOT, &inode(2, 0o040_755, directory.len()));
    put(ROOT + 64, &directory);
    put(FILE, &inode(1, 0o100_644, len));
    // A list of one extent of 16 bytes: the length with the algorithm, the address, the offset in the file.
    put(FILE + 64, &1_u32.to_le_bytes());
    put(FILE + 64 + 4, &5_u16.to_le_bytes());
    let stored = compressed.len() as u32 | (algorithm as u32 + 1) << 28;
    put(FILE + 64 + 16, &stored.to_le_bytes());
    put(FILE + 64 + 20, &(CLUSTER as u32).to_le_bytes());
    image.extend(compressed);
    image
}

/// An inode of the long form with this layout.
fn inode(layout: u16, mode: u16, size: usize) -> [u8; 64] {
    let mut inode = [0; 64];
    inode[..2].copy_from_slice(&(1 | layout << 1).to_le_bytes());
    inode[4..6].copy_from_slice(&mode.to_le_bytes());
    inode[8..16].copy_from_slice(&(size as u64).to_le_bytes());
    inode[44] = 1;
    inode
}

/// The content of the root.
fn directory(root: u64, file: u64) -> Vec<u8> {
    const REGULAR: u8 = 1;
    const DIRECTORY: u8 = 2;
    let entries = [
        (".", root, DIRECTORY),
        ("..", root, DIRECTORY),
        (NAME, file, REGULAR),
    ];
    let mut content = Vec::new();
    let mut name_at = entries.len() * 12;
    for (name, nid, file_type) in entries {
        content.extend(nid.to_le_bytes());
        content.extend((name_at as u16).to_le_bytes());
        content.extend([file_type, 0]);
        name_at += name.len();
    }
    content.extend(entries.iter().flat_map(|(name, ..)| name.bytes()));
    content
}
