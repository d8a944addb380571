//! Opens bytes as an EROFS image and reads all that is in it.
//!
//! The superblock's checksum stops a fuzzer at once. So the bytes are read twice: as they are, and with the checksum
//! made right.

#![no_main]

use std::{ffi::OsStr, ops::ControlFlow, path::PathBuf, sync::Arc};

use libfuzzer_sys::fuzz_target;
use verimount_erofs::ErofsTree;
use verimount_source::Scratch;
use verimount_tree::{Attr, Cursor, Error, FileType, NodeId, Tree, resolve, walk};
use verimount_verity::Checked;

/// How much of a file is read at a time, in bytes.
const PIECE: usize = 1 << 16;

/// How many files are looked at: images that the fuzzer finds may have very many that are nearly the same.
const MAX_FILES: usize = 200;

/// How many records of maps may be looked at for what is done with a file, besides [`RECORDS_FOR_BYTE`]. A fuzzer that measures
/// time finds an image that is slow only if it is large.
const MAX_RECORDS: u64 = 1 << 20;

/// How many for each byte of the image: all that is done may look at a map from its beginning to its end.
const RECORDS_FOR_BYTE: u64 = 64;

/// How many records may be looked at for a byte that was just read: where its extent begins and where the next one does, each
/// in 256 steps in an index and fewer in lists, and the same in the inode that holds fragments. What is looked at once only,
/// such as the lengths of all extents in front, was looked at by the read before.
const MAX_RECORDS_AGAIN: u64 = 2 * (2 * 256 + 2);

/// The bit of a superblock which says that inodes may be in a compressed file.
const METABOX: (usize, u8) = (1024 + 0x51, 1);

fuzz_target!(|bytes: &[u8]| {
    read_everything(bytes.to_vec());
    read_everything(with_right_checksum(bytes));
});

fn read_everything(bytes: Vec<u8>) {
    let most_records = MAX_RECORDS + RECORDS_FOR_BYTE * bytes.len() as u64;
    // Of inodes in a compressed file, maps may be looked at that others are in.
    let has_metabox = bytes
        .get(METABOX.0)
        .is_some_and(|byte| byte & METABOX.1 != 0);
    let Ok(tree) = ErofsTree::open(Checked::unverified(Arc::new(bytes)), Vec::new()) else {
        return;
    };
    let mut files = vec![(PathBuf::new(), NodeId::ROOT)];
    let _ = walk(&tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        files.push((path.to_owned(), attr.node));
        if files.len() < MAX_FILES {
            Ok(())
        } else {
            Err(Error::NotFound)
        }
    });
    for (path, node) in files {
        let before = tree.work().records;
        if let Ok(attr) = tree.attr(node) {
            let _ = resolve(&tree, &path);
            read_file(&tree, &attr);
            if !has_metabox {
                read_again(&tree, &attr);
            }
        }
        let records = tree.work().records - before;
        assert!(records <= most_records, "{records} records for {path:?}");
    }
}

fn read_file(tree: &ErofsTree, attr: &Attr) {
    let mut scratch = Scratch::default();
    if let Ok(names) = tree.xattr_names(attr.node) {
        for name in names.iter() {
            let _ = tree.xattr(attr.node, name);
        }
    }
    for offset in [0, 1, attr.size / 2, attr.size.saturating_sub(1)] {
        if let Ok(bytes) = tree.read(attr.node, offset, PIECE, &mut scratch) {
            let rest = attr.size.saturating_sub(offset);
            assert_eq!(bytes.len() as u64, rest.min(PIECE as u64));
        }
        if let Ok(extent) = tree.extent(attr.node, offset) {
            assert!(offset + extent.len.get() <= attr.size);
        }
    }
    if let Ok(target) = tree.readlink(attr.node, &mut scratch) {
        assert!(!target.is_empty() && !target.contains(&0));
    }
    if attr.file_type == FileType::Directory {
        let _ = tree.lookup(attr.node, OsStr::new("name"));
        let from = Cursor::new(attr.size / 2).unwrap_or(Cursor::MAX);
        let _ = tree.list(attr.node, from, &mut |_, _| ControlFlow::Continue(()));
    }
}

/// Reads single bytes twice: the second time takes few steps, however the file's map is made.
fn read_again(tree: &ErofsTree, attr: &Attr) {
    let mut scratch = Scratch::default();
    for offset in [0, attr.size / 2, attr.size.saturating_sub(1)] {
        let mut read = || tree.read(attr.node, offset, 1, &mut scratch).is_ok();
        read();
        let before = tree.work();
        let is_read = read();
        let records = tree.work().records - before.records;
        assert!(
            records <= MAX_RECORDS_AGAIN,
            "{records} records for the byte at {offset} again"
        );
        let clusters = tree.work().clusters - before.clusters;
        // One that could be decompressed is kept.
        let most = u64::from(!is_read);
        assert!(clusters <= most, "{clusters} clusters for one byte again");
    }
}

/// Makes the checksum of the superblock right.
fn with_right_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut image = bytes.to_vec();
    let block = image
        .get(1036)
        .and_then(|bits| 1_usize.checked_shl((*bits).into()));
    let len = block.map_or(0, |block| if block > 1024 { block - 1024 } else { block });
    if len >= 128 && image.len() >= 1024 + len {
        image[1028..1032].fill(0);
        let checksum = !crc32c::crc32c(&image[1024..1024 + len]);
        image[1028..1032].copy_from_slice(&checksum.to_le_bytes());
    }
    image
}
